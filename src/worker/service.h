// The worker's methods: from a request's parameters to the JSON of its result. No sockets here.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "wire/json.h"
#include "wire/schema.h"
#include "worker/root.h"
#include "worker/walk.h"

namespace sallyport::worker {

// How a method sends and receives besides its parameters and its result.
class StreamPort {
 public:
  virtual ~StreamPort() = default;
  // Announces a stream and sends [from, to) of a file on it once the response is out.
  virtual Result<std::uint32_t> send_file(UniqueFd file, std::uint64_t from, std::uint64_t to) = 0;
  // The next bytes of a stream that the request named, valid until the next call; nullopt at its end.
  virtual Result<std::optional<std::string_view>> receive(std::uint32_t stream) = 0;
  // A `progress` event of the request in hand. Waits while the peer does not read: CANCELLED or TIMEOUT if the
  // request is over before it does.
  virtual Status send_progress(std::string_view params, Stop& stop) = 0;
};

struct Call {
  wire::Value params;
  Stop& stop;
  wire::JsonWriter& json;  // the result is written here: one object
  StreamPort* streams;     // none where the transport has neither streams nor events
};

class Service;
struct Method {
  std::string_view name;
  wire::Schema schema;
  Status (*handle)(const Service& service, const Call& call);
};

class Service {
 public:
  using Environment = std::function<std::optional<std::string>(const std::string& name)>;

  // `environment` answers env.get; by default the process's own.
  explicit Service(Roots roots, Environment environment = process_environment());

  // METHOD_NOT_FOUND, INVALID_PARAMS naming the field, or what the method says. On an error, what was
  // written to call.json is worthless. Exceptions of libraries come back as INTERNAL_ERROR.
  Status handle(std::string_view method, const Call& call) const;

  static const Method* find(std::string_view method);
  static std::span<const Method> methods();

  const Roots& roots() const { return roots_; }
  const Environment& environment() const { return environment_; }
  static Environment process_environment();

 private:
  Roots roots_;
  Environment environment_;
};

}  // namespace sallyport::worker
