// Reading a request's parameters after its schema was checked: types are known, so is every name.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "wire/json.h"

namespace sallyport::worker {

class Params {
 public:
  explicit Params(wire::Value params) : params_(params) {}

  bool has(std::string_view name) const { return params_.get(name).exists(); }
  wire::Value get(std::string_view name) const { return params_.get(name); }

  bool flag(std::string_view name) const { return params_.get(name).as_bool().value_or(false); }
  std::string text(std::string_view name, std::string_view otherwise = {}) const {
    return std::string(params_.get(name).as_string().value_or(otherwise));
  }
  std::optional<std::string> optional_text(std::string_view name) const {
    const auto value = params_.get(name).as_string();
    return value ? std::optional<std::string>(*value) : std::nullopt;
  }
  std::uint64_t number(std::string_view name, std::uint64_t otherwise) const {
    return params_.get(name).as_uint().value_or(otherwise);
  }
  std::optional<bool> optional_flag(std::string_view name) const { return params_.get(name).as_bool(); }
  std::optional<std::uint64_t> optional_number(std::string_view name) const { return params_.get(name).as_uint(); }

  // One string, or an array of them.
  Result<std::vector<std::string>> texts(std::string_view name) const;

  // One of a closed set of words; the first is the default.
  template <typename T>
  struct Word {
    std::string_view text;
    T value;
  };
  template <typename T, std::size_t kCount>
  Result<T> word(std::string_view name, const std::array<Word<T>, kCount>& words) const {
    const auto given = params_.get(name).as_string();
    if (!given) return words[0].value;
    std::string known;
    for (const Word<T>& one : words) {
      if (one.text == *given) return one.value;
      known.append(known.empty() ? "" : ", ").append(one.text);
    }
    return Error::invalid_param("params." + std::string(name), "must be one of " + known);
  }

 private:
  wire::Value params_;
};

inline Result<std::vector<std::string>> Params::texts(std::string_view name) const {
  std::vector<std::string> all;
  const wire::Value value = params_.get(name);
  if (const auto one = value.as_string())
    all.emplace_back(*one);
  else if (value.exists() && !value.is_array()) {
    return Error::invalid_param("params." + std::string(name), "must be a string or an array of strings");
  }
  for (const wire::Value item : value.items()) {
    const auto text = item.as_string();
    if (!text) return Error::invalid_param("params." + std::string(name), "must hold strings only");
    all.emplace_back(*text);
  }
  return all;
}

}  // namespace sallyport::worker
