#include "adapters/adapter.h"

#include "adapters/cache.h"
#include "adapters/storage_files.h"

namespace sallyport::adapters {

Result<Scope> scope_of(ipc::Call& call, std::string_view field) {
  Scope scope{std::string(call.params().get("$tenant").as_string().value_or("")),
              std::string(call.params().get(field).as_string().value_or(""))};
  if (scope.tenant.empty()) return Error::make(Code::invalid_request, "the call names no tenant");
  return scope;
}

Error backend_down(std::string detail) {
  Error error = Error::make(Code::unavailable, "the backend cannot be reached; try again", std::move(detail));
  error.retryable = true;
  return error;
}

Result<std::unique_ptr<Adapter>> make_adapter(platform::Role role, const std::string& implementation,
                                              const platform::Config& config, Machinery& machinery) {
  const platform::Options& options = config.options_of(implementation);
  if (role == platform::Role::storage && implementation == "files") {
    return make_file_storage(options.directory.empty() ? machinery.state_dir + "/storage" : options.directory,
                             machinery);
  }
  if (role == platform::Role::cache && implementation == "memory") return make_memory_cache(options, machinery);
  return Error::make(Code::unimplemented, "there is no such implementation");
}

}  // namespace sallyport::adapters
