// The proof of a decision. Only policy::Engine can make a Permit and every handler takes one, so code
// that would act without a decision does not compile.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace sallyport {

namespace policy {
class Engine;
}

// Who is asking, derived from the door and the kernel.
class Principal {
 public:
  static Principal host() { return Principal({}); }
  // A container's id: 1 to 64 of a-z 0-9 - _, starting with a letter or digit.
  static bool is_container_id(std::string_view id);
  static Principal container(std::string id) { return Principal(std::move(id)); }

  bool is_host() const { return container_.empty(); }
  const std::string& container_id() const { return container_; }
  std::string to_string() const { return is_host() ? "host" : "container/" + container_; }
  bool operator==(const Principal&) const = default;

 private:
  explicit Principal(std::string container) : container_(std::move(container)) {}
  std::string container_;
};

class Permit {
 public:
  Permit(Permit&&) = default;
  Permit& operator=(Permit&&) = default;
  Permit(const Permit&) = delete;
  Permit& operator=(const Permit&) = delete;

  const Principal& principal() const { return principal_; }
  std::string_view method() const { return method_; }

 private:
  friend class policy::Engine;
  Permit(Principal principal, std::string_view method) : principal_(std::move(principal)), method_(method) {}

  Principal principal_;
  std::string_view method_;  // of the method table: lives as long as the program
};

}  // namespace sallyport
