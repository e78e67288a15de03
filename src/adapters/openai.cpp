#include "adapters/openai.h"

#include "adapters/credentials.h"
#include "platform/limits.h"

namespace sallyport::adapters {

namespace {

// How long a backend may take to end an answer behind its last word: then its connection serves the next request.
constexpr Millis kEnding{500};

}  // namespace

OpenAi::OpenAi(const platform::Config& config, Machinery& machinery)
    : config_(config), http_(machinery.http), loop_(machinery.sessions.loop()) {
  if (auto address = platform::parse_address(config.options_of("openai").url)) address_ = std::move(*address);
}

Result<HttpRequest> OpenAi::request(std::string_view path, std::string body) {
  HttpRequest request;
  request.url = address_.url() + std::string(path);
  request.body = std::move(body);
  if (!request.body.empty()) request.headers.emplace_back("Content-Type: application/json");
  // Without it curl waits for leave to send a large body.
  request.headers.emplace_back("Expect:");
  const std::string& name = config_.options_of("openai").credential;
  if (name.empty()) return request;
  const platform::Credential& credential = config_.credentials.at(name);
  TRY(check_destination(credential, address_, address_.path + std::string(path)));
  TRY(const std::string secret, read_credential(config_, name));
  if (credential.inject.starts_with("header:")) {
    request.headers.push_back(credential.inject.substr(7) + ": " + secret);
  } else {
    request.headers.push_back("Authorization: Bearer " + secret);
  }
  return request;
}

Task<Result<HttpResponse>> OpenAi::send(ipc::Call* call, HttpRequest request, WantsMore wants_more) {
  const auto answered = std::make_shared<ipc::OneShot<Result<HttpResponse>>>();
  if (call != nullptr) {
    request.tenant = call->params().get("$tenant").as_string().value_or("");
    // Whether a model was asked decides what it costs, also if nobody waits for it any more.
    call->answer_for_itself();
  }
  struct Way {
    std::uint64_t id = 0;
    bool has_all = false;
  };
  const auto way = std::make_shared<Way>();
  Http::OnPiece on_piece;
  if (wants_more) {
    on_piece = [wants_more = std::move(wants_more), weak = std::weak_ptr(http_), &loop = loop_,
                way](std::string_view piece) {
      if (way->has_all || wants_more(piece)) return;
      way->has_all = true;
      loop.after(kEnding, [weak, way] {
        if (const auto http = weak.lock()) http->cancel(way->id);
      });
    };
  }
  const std::uint64_t id = way->id =
      http_->start(std::move(request), std::move(on_piece),
                   [answered](Result<HttpResponse> response) { answered->resolve(std::move(response)); });
  if (call != nullptr) call->on_cancel([http = http_, id] { http->cancel(id); });
  auto response = co_await *answered;
  if (call == nullptr) co_return response;
  call->on_cancel(nullptr);
  // However the connection ends behind its last word, it has answered.
  if (!response && way->has_all) co_return HttpResponse{200, {}, {}};
  if (!response && response.error().code == Code::cancelled && call->is_given_up()) {
    Error error = call->why_given_up();
    error.details_json = response.error().details_json;
    co_return error;
  }
  co_return response;
}

Task<Status> OpenAi::probe() {
  CO_TRY(HttpRequest ask, request("/models", ""));
  ask.timeout = platform::kProbeTimeout;
  CO_TRY(const HttpResponse response, co_await send(nullptr, std::move(ask)));
  // One that lists no models is alive as well.
  if (response.status == 404 || response.status == 405) co_return ok();
  co_return check_status(response);
}

Result<std::string> model_name(const std::map<std::string, std::string>& models, wire::Value wanted) {
  const auto found = models.find(std::string(wanted.as_string().value_or("")));
  if (found == models.end()) return Error::invalid_param("params.model", "names no model of this host");
  return found->second;
}

void describe_models(wire::JsonWriter& json, const std::map<std::string, std::string>& models) {
  json.member("is_model", true).key("models").begin_array();
  for (const auto& [name, theirs] : models) json.value(name);
  json.end_array();
}

Status check_status(const HttpResponse& response) {
  if (response.status == 200) return ok();
  const std::string detail = "HTTP status " + std::to_string(response.status);
  if (response.status == 429) {
    Error error = Error::make(Code::rate_limited, "the backend wants fewer requests; try again later", detail);
    error.retryable = true;
    error.details_json = wire::to_json([&](wire::JsonWriter& json) {
      json.begin_object().key("retry_after_ms");
      if (response.retry_after) {
        json.value(response.retry_after->count());
      } else {
        json.null();
      }
      json.end_object();
    });
    return error;
  }
  if (response.status == 401 || response.status == 403) {
    return Error::make(Code::unavailable, "the backend refuses the host's credential", detail);
  }
  if (response.status >= 400 && response.status < 500) {
    return Error::make(Code::invalid_params, "the backend refuses the request", detail);
  }
  Error down = backend_down(detail);
  // Only 503 says that nothing was done. Behind any other a model may have worked, and whoever runs it counted that.
  if (response.status >= 500 && response.status != 503) down.details_json = R"({"was_asked":true})";
  return down;
}

}  // namespace sallyport::adapters
