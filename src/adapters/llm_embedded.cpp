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

namespace {

void write_model(JsonWriter& json, bool is_model) {
  json.member("is_model", is_model);
  if (!is_model) json.member("note", platform::kNoModel);
}

void write_usage(JsonWriter& json, std::optional<std::int64_t> tokens) {
  if (tokens) json.key("usage").begin_object().member("input_tokens", *tokens).end_object();
}

}  // namespace

Reply completion_reply(Call& call, const Completion& completion, bool is_model) {
  return call.result([&](JsonWriter& json) {
    json.begin_object().member("text", completion.text).member("finish_reason", completion.finish_reason);
    if (completion.input_tokens && completion.output_tokens) {
      json.key("usage").begin_object().member("input_tokens", *completion.input_tokens);
      json.member("output_tokens", *completion.output_tokens).end_object();
    }
    write_model(json, is_model);
    json.end_object();
  });
}

Reply embedding_reply(Call& call, const std::vector<std::vector<float>>& vectors, std::optional<std::int64_t> tokens,
                      bool is_model) {
  std::string bytes;
  for (const auto& vector : vectors) {
    bytes.append(reinterpret_cast<const char*>(vector.data()), vector.size() * sizeof(float));
  }
  const bool is_one = call.params().get("text").exists();
  return reply_with_stream(call, is_one ? "vector" : "vectors", std::move(bytes), [&](JsonWriter& json) {
    json.member("count", vectors.size()).member("dimensions", vectors.empty() ? 0 : vectors[0].size());
    write_usage(json, tokens);
    write_model(json, is_model);
  });
}

Reply dimensions_reply(Call& call, std::size_t dimensions, std::optional<std::int64_t> tokens, bool is_model) {
  return call.result([&](JsonWriter& json) {
    json.begin_object().member("dimensions", dimensions);
    write_usage(json, tokens);
    write_model(json, is_model);
    json.end_object();
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
    std::int64_t read = 0;
    std::string_view last;
    for (const wire::Value message : messages.items()) {
      last = message.get("content").as_string().value_or("");
      read += static_cast<std::int64_t>(platform::split_words(last).size());
    }
    const auto echoed =
        platform::echo(last, call.params().get("max_tokens").as_int().value_or(0), [&](std::string_view word) {
          if (verb != "stream") return true;
          call.session().send_event(call.message().id, "llm.token", wire::to_json([&](JsonWriter& json) {
                                      json.begin_object().member("text", word).end_object();
                                    }));
          return true;
        });
    return completion_reply(call, {echoed.text, echoed.finish_reason, read, echoed.words}, false);
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
      return dimensions_reply(call, dimensions_, 0, false);
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
