#include <cstring>

#include "adapters/bulk.h"
#include "adapters/llm.h"
#include "platform/embedded.h"

namespace sallyport::adapters {

using ipc::Call;
using ipc::Reply;
using wire::JsonWriter;

Status check_messages(wire::Value messages) {
  for (const wire::Value message : messages.items()) {
    const auto role = message.get("role").as_string();
    const bool is_role = role == "system" || role == "user" || role == "assistant";
    if (!is_role || !message.get("content").is_string() || message.size() != 2) {
      return Error::invalid_param("params.messages",
                                  "must be {\"role\": system, user or assistant, \"content\": text}");
    }
  }
  return ok();
}

Reply completion_reply(Call& call, const Completion& completion, bool is_model) {
  return call.result([&](JsonWriter& json) {
    json.begin_object().member("text", completion.text).member("finish_reason", completion.finish_reason);
    json.key("usage").begin_object().member("input_tokens", completion.input_tokens);
    json.member("output_tokens", completion.output_tokens).end_object().member("is_model", is_model);
    if (!is_model) json.member("note", platform::kNoModel);
    json.end_object();
  });
}

Reply embedding_reply(Call& call, const std::vector<std::vector<float>>& vectors, std::int64_t tokens, bool is_model) {
  std::string bytes;
  for (const auto& vector : vectors) {
    bytes.append(reinterpret_cast<const char*>(vector.data()), vector.size() * sizeof(float));
  }
  const bool is_one = call.params().get("text").exists();
  return reply_with_stream(call, is_one ? "vector" : "vectors", std::move(bytes), [&](JsonWriter& json) {
    json.member("count", vectors.size()).member("dimensions", vectors.empty() ? 0 : vectors[0].size());
    json.key("usage").begin_object().member("input_tokens", tokens).end_object().member("is_model", is_model);
    if (!is_model) json.member("note", platform::kNoModel);
  });
}

std::vector<std::string_view> texts_to_embed(Call& call) {
  if (const auto one = call.params().get("text").as_string()) return {*one};
  std::vector<std::string_view> texts;
  for (const wire::Value text : call.params().get("texts").items()) texts.push_back(text.as_string().value_or(""));
  return texts;
}

namespace {

// Repeats the last message, word by word.
class EchoLlm final : public Adapter {
 public:
  Task<Status> probe() override { return Task<Status>::ready(ok()); }
  void describe(JsonWriter& json) const override {
    json.member("is_model", false).key("models").begin_array().value("default").value("echo").end_array();
  }
  Task<Reply> handle(std::string_view verb, Call& call) override { return Task<Reply>::ready(answer(verb, call)); }

 private:
  static Reply answer(std::string_view verb, Call& call) {
    const wire::Value messages = call.params().get("messages");
    if (const Status checked = check_messages(messages); !checked) return checked.error();
    Completion completion;
    std::string_view last;
    for (const wire::Value message : messages.items()) {
      last = message.get("content").as_string().value_or("");
      completion.input_tokens += static_cast<std::int64_t>(platform::split_words(last).size());
    }
    const auto most = call.params().get("max_tokens").as_int().value_or(INT64_MAX);
    completion.finish_reason = "stop";
    for (const std::string_view word : platform::split_words(last)) {
      if (completion.output_tokens == most) {
        completion.finish_reason = "length";
        break;
      }
      ++completion.output_tokens;
      completion.text.append(word);
      if (verb != "stream") continue;
      call.session().send_event(call.message().id, "llm.token", wire::to_json([&](JsonWriter& json) {
                                  json.begin_object().member("text", word).end_object();
                                }));
    }
    return completion_reply(call, completion, false);
  }
};

class HashingEmbeddings final : public Adapter {
 public:
  explicit HashingEmbeddings(std::int64_t dimensions) : dimensions_(static_cast<std::size_t>(dimensions)) {}
  Task<Status> probe() override { return Task<Status>::ready(ok()); }
  void describe(JsonWriter& json) const override {
    json.member("is_model", false).member("dimensions", dimensions_).key("models").begin_array();
    json.value("default").value("hashing").end_array();
  }
  Task<Reply> handle(std::string_view verb, Call& call) override { return Task<Reply>::ready(answer(verb, call)); }

 private:
  Reply answer(std::string_view verb, Call& call) const {
    if (verb == "dimensions") {
      return call.result([&](JsonWriter& json) {
        json.begin_object().member("dimensions", dimensions_).member("is_model", false).end_object();
      });
    }
    std::vector<std::vector<float>> vectors;
    std::int64_t tokens = 0;
    for (const std::string_view text : texts_to_embed(call)) {
      tokens += static_cast<std::int64_t>(platform::split_words(text).size());
      vectors.push_back(platform::hash_text(text, dimensions_));
    }
    return embedding_reply(call, vectors, tokens, false);
  }

  std::size_t dimensions_;
};

}  // namespace

std::unique_ptr<Adapter> make_echo_llm() { return std::make_unique<EchoLlm>(); }

std::unique_ptr<Adapter> make_hashing_embeddings(const platform::Options& options) {
  return std::make_unique<HashingEmbeddings>(options.dimensions != 0 ? options.dimensions : platform::kHashDimensions);
}

}  // namespace sallyport::adapters
