#include <cmath>

#include "adapters/llm.h"
#include "adapters/openai.h"
#include "adapters/sse.h"
#include "platform/limits.h"

namespace sallyport::adapters {
namespace {

using ipc::Call;
using ipc::Reply;
using wire::JsonWriter;

constexpr std::size_t kMaxAnswerBytes = 8U << 20;

// It answered, so it worked: whoever counts what that cost must not take this for a backend that is not there.
Error broken_off(const char* message, const char* kind) {
  Error error = Error::make(Code::io_error, message);
  error.details_json = std::string(R"({"errno":")") + kind + "\"}";
  return error;
}

Error garbage() { return broken_off("the backend answered with something else than it should", "EBADMSG"); }

// A number of tokens that can be one.
std::optional<std::int64_t> count_of(wire::Value number) {
  const auto count = number.as_int();
  return count && *count >= 0 ? count : std::nullopt;
}

void read_usage(wire::Value usage, Completion& completion) {
  completion.input_tokens = count_of(usage.get("prompt_tokens"));
  completion.output_tokens = count_of(usage.get("completion_tokens"));
}

wire::Value first_choice(wire::Value root) {
  for (const wire::Value choice : root.get("choices").items()) return choice;
  return {};
}

// A stream under way: from the backend's pieces to events of the call.
struct Streaming {
  Call& call;
  wire::Decoder decoder{};
  SseReader reader = {};
  Completion completion = {};
  std::optional<Error> failure = {};
  bool is_done = false;

  // False once nothing more is to be expected of it.
  bool take(std::string_view piece) {
    if (failure) return false;
    const Status fed = reader.feed(piece, [this](std::string_view data) { take_event(data); });
    if (!fed) failure = fed.error();
    return !failure && !is_done;
  }

  void take_event(std::string_view data) {
    if (failure || is_done) return;
    if (data == "[DONE]") {
      is_done = true;
      return;
    }
    const auto document = decoder.parse(data);
    if (!document || !document->root().is_object()) {
      failure = garbage();
      return;
    }
    const wire::Value root = document->root();
    // A fault after the head was sent can only be told here.
    if (root.get("error").is_object() || root.get("error").is_string()) {
      failure = broken_off("the backend gave up in the middle of its answer", "EIO");
      failure->retryable = true;
      return;
    }
    if (const wire::Value usage = root.get("usage"); usage.is_object()) read_usage(usage, completion);
    const wire::Value choice = first_choice(root);
    if (const auto reason = choice.get("finish_reason").as_string()) completion.finish_reason = *reason;
    const auto text = choice.get("delta").get("content").as_string();
    if (!text || text->empty()) return;
    completion.text.append(*text);
    if (call.is_given_up()) return;
    call.session().send_event(call.message().id, "llm.token", wire::to_json([&](JsonWriter& json) {
                                json.begin_object().member("text", *text).end_object();
                              }));
  }
};

class OpenAiLlm final : public Adapter {
 public:
  OpenAiLlm(const platform::Config& config, Machinery& machinery)
      : models_(config.options_of("openai").models), backend_(config, machinery) {}

  Task<Status> probe() override { return backend_.probe(); }
  void describe(JsonWriter& json) const override { describe_models(json, models_); }

  Task<Reply> handle(std::string_view verb, Call& call) override {
    CO_TRY(check_messages(call.params().get("messages")));
    CO_TRY(const std::string model, model_name(models_, call.params().get("model")));
    const bool streams = verb == "stream";
    CO_TRY(HttpRequest request, backend_.request("/chat/completions", body_of(call, model, streams)));
    request.most_bytes = kMaxAnswerBytes;
    if (streams) co_return co_await stream(call, std::move(request));
    CO_TRY(const HttpResponse response, co_await backend_.send(&call, std::move(request)));
    CO_TRY(check_status(response));
    wire::Decoder decoder;
    const auto document = decoder.parse(response.body);
    if (!document) co_return garbage();
    const wire::Value choice = first_choice(document->root());
    const auto text = choice.get("message").get("content").as_string();
    if (!text) co_return garbage();
    Completion completion;
    completion.text = *text;
    completion.finish_reason = choice.get("finish_reason").as_string().value_or("");
    read_usage(document->root().get("usage"), completion);
    co_return completion_reply(call, completion, true);
  }

 private:
  static std::string body_of(Call& call, const std::string& model, bool streams) {
    return wire::to_json([&](JsonWriter& json) {
      json.begin_object().member("model", model).member("messages", call.params().get("messages"));
      for (const char* name : {"max_tokens", "temperature"}) {
        if (const wire::Value value = call.params().get(name)) json.member(name, value);
      }
      if (streams) json.member("stream", true).key("stream_options").raw(R"({"include_usage":true})");
      json.end_object();
    });
  }

  Task<Reply> stream(Call& call, HttpRequest request) {
    const auto streaming = std::make_shared<Streaming>(Streaming{call});
    // With a name: among what is awaited it would be destroyed twice by GCC 12.
    OpenAi::WantsMore take = [streaming](std::string_view piece) { return streaming->take(piece); };
    auto response = co_await backend_.send(&call, std::move(request), std::move(take));
    if (!response) co_return std::move(response).error();
    CO_TRY(check_status(*response));
    if (streaming->failure) co_return *streaming->failure;
    if (!streaming->is_done && streaming->completion.finish_reason.empty()) {
      Error error = broken_off("the backend broke off in the middle of its answer", "ECONNRESET");
      error.retryable = true;
      co_return error;
    }
    co_return completion_reply(call, streaming->completion, true);
  }

  std::map<std::string, std::string> models_;
  OpenAi backend_;
};

class OpenAiEmbeddings final : public Adapter {
 public:
  OpenAiEmbeddings(const platform::Config& config, Machinery& machinery)
      : models_(config.options_of("openai").embedding_models),
        dimensions_(config.options_of("openai").dimensions),
        backend_(config, machinery) {}

  Task<Status> probe() override { return backend_.probe(); }
  void describe(JsonWriter& json) const override {
    describe_models(json, models_);
    if (dimensions_ != 0) json.member("dimensions", dimensions_);
  }

  Task<Reply> handle(std::string_view verb, Call& call) override {
    CO_TRY(const std::string model, model_name(models_, call.params().get("model")));
    if (verb == "dimensions") {
      if (dimensions_ != 0) co_return dimensions_reply(call, static_cast<std::size_t>(dimensions_), 0, true);
      if (const auto known = seen_.find(model); known != seen_.end()) {
        co_return dimensions_reply(call, known->second, 0, true);
      }
      std::vector<std::string_view> probe = {"dimensions"};
      CO_TRY(const Embedded one, co_await embed(call, model, std::move(probe)));
      co_return dimensions_reply(call, one.vectors[0].size(), one.tokens, true);
    }
    const auto texts = texts_to_embed(call);
    CO_TRY(const Embedded all, co_await embed(call, model, texts));
    co_return embedding_reply(call, all.vectors, all.tokens, true);
  }

 private:
  struct Embedded {
    std::vector<std::vector<float>> vectors;
    std::optional<std::int64_t> tokens = {};
  };

  Task<Result<Embedded>> embed(Call& call, const std::string& model, std::vector<std::string_view> texts) {
    CO_TRY(HttpRequest request,
           backend_.request("/embeddings", wire::to_json([&](JsonWriter& json) {
                              json.begin_object().member("model", model).key("input").begin_array();
                              for (const std::string_view text : texts) json.value(text);
                              json.end_array().member("encoding_format", "float").end_object();
                            })));
    CO_TRY(const HttpResponse response, co_await backend_.send(&call, std::move(request)));
    CO_TRY(check_status(response));
    wire::Decoder decoder;
    const auto document = decoder.parse(response.body);
    if (!document) co_return garbage();
    Embedded all;
    all.tokens = count_of(document->root().get("usage").get("prompt_tokens"));
    all.vectors.resize(texts.size());
    for (const wire::Value item : document->root().get("data").items()) {
      const auto index = item.get("index").as_uint();
      if (!index || *index >= texts.size() || !all.vectors[*index].empty()) co_return garbage();
      if (item.get("embedding").size() > std::size_t{platform::kMaxDimensions}) co_return garbage();
      for (const wire::Value number : item.get("embedding").items()) {
        const auto value = static_cast<float>(number.as_double().value_or(NAN));
        if (!std::isfinite(value)) co_return garbage();
        all.vectors[*index].push_back(value);
      }
    }
    for (const auto& vector : all.vectors) {
      if (vector.empty() || vector.size() != all.vectors[0].size()) co_return garbage();
    }
    seen_[model] = all.vectors[0].size();
    co_return all;
  }

  std::map<std::string, std::string> models_;
  std::int64_t dimensions_;
  std::map<std::string, std::size_t> seen_;  // dimensions, by model, where none are configured
  OpenAi backend_;
};

}  // namespace

std::unique_ptr<Adapter> make_openai_llm(const platform::Config& config, Machinery& machinery) {
  return std::make_unique<OpenAiLlm>(config, machinery);
}

std::unique_ptr<Adapter> make_openai_embeddings(const platform::Config& config, Machinery& machinery) {
  return std::make_unique<OpenAiEmbeddings>(config, machinery);
}

}  // namespace sallyport::adapters
