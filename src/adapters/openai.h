// What the two OpenAI-compatible adapters share: where the backend is, under which credential, and what its
// refusals mean to a caller.
#pragma once

#include <memory>
#include <string>

#include "adapters/adapter.h"
#include "adapters/http.h"
#include "platform/address.h"

namespace sallyport::adapters {

class OpenAi {
 public:
  OpenAi(const platform::Config& config, Machinery& machinery);

  // The request for a path below the configured address, with the credential where it may be sent.
  Result<HttpRequest> request(std::string_view path, std::string body);
  // Gets pieces as they come; false: it has all that it wants.
  using WantsMore = std::function<bool(std::string_view)>;
  // Sends it and waits; the call's end gives it up.
  Task<Result<HttpResponse>> send(ipc::Call* call, HttpRequest request, WantsMore wants_more = {});
  Task<Status> probe();

 private:
  const platform::Config& config_;
  platform::Address address_;
  std::shared_ptr<Http> http_;
  ipc::Loop& loop_;
};

// The backend's name of a model; INVALID_PARAMS if there is none.
Result<std::string> model_name(const std::map<std::string, std::string>& models, wire::Value wanted);
void describe_models(wire::JsonWriter& json, const std::map<std::string, std::string>& models);
// An error unless the backend said 200. Of what else it said nothing is passed on: it may repeat a credential.
Status check_status(const HttpResponse& response);

}  // namespace sallyport::adapters
