#include "worker/service.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>

#include "worker/methods.h"

namespace sallyport::worker {
namespace {

// Sorted by name.
const std::array kMethods = {
    Method{"env.get", methods::kEnvSchema, methods::env_get},
    Method{"fs.copy", methods::kCopySchema, methods::copy},
    Method{"fs.edit", methods::kEditSchema, methods::edit},
    Method{"fs.glob", methods::kGlobSchema, methods::glob},
    Method{"fs.grep", methods::kGrepSchema, methods::grep},
    Method{"fs.list", methods::kListSchema, methods::list},
    Method{"fs.mkdir", methods::kMkdirSchema, methods::mkdir},
    Method{"fs.move", methods::kMoveSchema, methods::move},
    Method{"fs.multi_edit", methods::kMultiEditSchema, methods::multi_edit},
    Method{"fs.read", methods::kReadSchema, methods::read},
    Method{"fs.remove", methods::kRemoveSchema, methods::remove},
    Method{"fs.stat", methods::kStatSchema, methods::stat},
    Method{"fs.write", methods::kWriteSchema, methods::write},
    Method{"worker.ping", {}, methods::pong},
    Method{"worker.shutdown", {}, methods::pong},
};

}  // namespace

Service::Service(Roots roots, Environment environment)
    : roots_(std::move(roots)), environment_(std::move(environment)) {}

Service::Environment Service::process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

std::span<const Method> Service::methods() { return kMethods; }

const Method* Service::find(std::string_view method) {
  const auto* row = std::lower_bound(kMethods.begin(), kMethods.end(), method,
                                     [](const Method& a, std::string_view name) { return a.name < name; });
  return row != kMethods.end() && row->name == method ? row : nullptr;
}

Status Service::handle(std::string_view method, const Call& call) const {
  const Method* row = find(method);
  if (row == nullptr) return Error::make(Code::method_not_found, "the worker has no such method");
  TRY(wire::check_params(row->schema, call.params));
  // The one barrier: what a library throws (no memory, no threads) ends the request and not the worker.
  try {
    return row->handle(*this, call);
  } catch (const std::exception& thrown) {
    return Error::make(Code::internal_error, "the worker failed", thrown.what());
  }
}

}  // namespace sallyport::worker
