// Errors are values: a Result<T> is a T or an Error, and must be looked at.
//
//   TRY(auto dir, open_dir(path));   // declares dir, or returns the error
//   TRY(check(path));                // for a Status
//   CO_TRY(...)                      // the same inside a coroutine
#pragma once

#include <memory>
#include <utility>
#include <variant>

#include "base/error.h"

namespace sallyport {

// An Error kept on the heap: what it costs to carry a Result is what its value costs.
class ErrorBox {
 public:
  ErrorBox() = default;
  explicit ErrorBox(Error error) : error_(std::make_unique<Error>(std::move(error))) {}
  ErrorBox(const ErrorBox& other) : error_(other.error_ ? std::make_unique<Error>(*other.error_) : nullptr) {}
  ErrorBox& operator=(const ErrorBox& other) {
    if (this != &other) *this = ErrorBox(other);
    return *this;
  }
  ErrorBox(ErrorBox&&) noexcept = default;
  ErrorBox& operator=(ErrorBox&&) noexcept = default;
  ~ErrorBox() = default;

  explicit operator bool() const { return error_ != nullptr; }
  Error& operator*() const { return *error_; }
  Error* operator->() const { return error_.get(); }

 private:
  std::unique_ptr<Error> error_;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(*-explicit-*)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(*-explicit-*)

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& value() & { return *std::get_if<0>(&state_); }
  const T& value() const& { return *std::get_if<0>(&state_); }
  T&& value() && { return std::move(*std::get_if<0>(&state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return std::get_if<0>(&state_); }
  const T* operator->() const { return std::get_if<0>(&state_); }

  Error& error() & { return **std::get_if<1>(&state_); }
  const Error& error() const& { return **std::get_if<1>(&state_); }
  Error&& error() && { return std::move(**std::get_if<1>(&state_)); }

 private:
  std::variant<T, ErrorBox> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;

  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(*-explicit-*)

  bool has_value() const { return !error_; }
  explicit operator bool() const { return has_value(); }
  void value() const {}

  Error& error() & { return *error_; }
  const Error& error() const& { return *error_; }
  Error&& error() && { return std::move(*error_); }

 private:
  ErrorBox error_;
};

using Status = Result<void>;
inline Status ok() { return {}; }

}  // namespace sallyport

#define SALLYPORT_CONCAT_(a, b) a##b
#define SALLYPORT_CONCAT(a, b) SALLYPORT_CONCAT_(a, b)

#define SALLYPORT_TRY_VALUE_(ret, tmp, decl, ...) \
  auto tmp = (__VA_ARGS__);                       \
  if (!tmp) [[unlikely]]                          \
    ret std::move(tmp).error();                   \
  decl = std::move(tmp).value()
#define SALLYPORT_TRY_STATUS_(ret, ...)                            \
  do {                                                             \
    if (auto try_status = (__VA_ARGS__); !try_status) [[unlikely]] \
      ret std::move(try_status).error();                           \
  } while (false)

#define SALLYPORT_TRY_2_(ret, decl, ...) \
  SALLYPORT_TRY_VALUE_(ret, SALLYPORT_CONCAT(try_result_, __LINE__), decl, __VA_ARGS__)
#define SALLYPORT_TRY_1_(ret, expr) SALLYPORT_TRY_STATUS_(ret, expr)

// With one argument a Status is checked; with more, the first declares what receives the value and
// the rest is the expression (which may contain commas).
#define SALLYPORT_PICK_(_1, _2, _3, _4, _5, _6, _7, _8, NAME, ...) NAME
#define SALLYPORT_TRY_(ret, ...)                                                                       \
  SALLYPORT_PICK_(__VA_ARGS__, SALLYPORT_TRY_2_, SALLYPORT_TRY_2_, SALLYPORT_TRY_2_, SALLYPORT_TRY_2_, \
                  SALLYPORT_TRY_2_, SALLYPORT_TRY_2_, SALLYPORT_TRY_2_, SALLYPORT_TRY_1_, 0)           \
  (ret, __VA_ARGS__)

#define TRY(...) SALLYPORT_TRY_(return, __VA_ARGS__)
#define CO_TRY(...) SALLYPORT_TRY_(co_return, __VA_ARGS__)
