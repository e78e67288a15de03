#include "adapters/filter.h"

#include "platform/limits.h"

namespace sallyport::adapters {
namespace {

using wire::Value;

bool is_scalar(Value value) { return !value.is_object() && !value.is_array(); }

bool equal(Value a, Value b) {
  if (!a || !b) return false;
  if (a.is_string() || b.is_string()) return a.as_string() && a.as_string() == b.as_string();
  if (const auto left = a.as_int(), right = b.as_int(); left && right) return *left == *right;
  if (const auto left = a.as_double(), right = b.as_double(); left && right) return *left == *right;
  if (const auto left = a.as_bool(), right = b.as_bool(); left && right) return *left == *right;
  return a.is_null() && b.is_null();
}

bool is_less(Value a, Value b) {
  if (const auto left = a.as_double(), right = b.as_double(); left && right) return *left < *right;
  if (const auto left = a.as_string(), right = b.as_string(); left && right) return *left < *right;
  return false;
}

bool is_among(Value value, Value array) {
  for (const Value item : array.items()) {
    if (equal(value, item)) return true;
  }
  return false;
}

bool holds(std::string_view op, Value field, Value wanted) {
  if (op == "eq") return equal(field, wanted);
  if (op == "ne") return !equal(field, wanted);
  if (op == "in") return is_among(field, wanted);
  if (op == "nin") return !is_among(field, wanted);
  if (op == "lt") return field && is_less(field, wanted);
  return field && is_less(wanted, field);  // gt
}

}  // namespace

Status check_filter(Value filter) {
  if (!filter) return ok();
  std::size_t values = 0;
  for (const auto& [field, tests] : filter.members()) {
    if (!tests.is_object() || tests.size() == 0) {
      return Error::invalid_param("params.filter", "must be {\"field\": {\"eq\": value}}");
    }
    for (const auto& [op, wanted] : tests.members()) {
      const bool takes_list = op == "in" || op == "nin";
      const bool is_known = takes_list || op == "eq" || op == "ne" || op == "lt" || op == "gt";
      if (!is_known) return Error::invalid_param("params.filter", "knows eq, ne, in, nin, lt and gt");
      if (takes_list ? !wanted.is_array() : !is_scalar(wanted)) {
        return Error::invalid_param("params.filter", "compares with one value, or with a list for in and nin");
      }
      values += takes_list ? wanted.size() : 1;
    }
  }
  if (values > platform::kMaxFilterValues) {
    return Error::invalid_param("params.filter",
                                "must have at most " + std::to_string(platform::kMaxFilterValues) + " values");
  }
  return ok();
}

bool matches(Value filter, Value metadata) {
  for (const auto& [field, tests] : filter.members()) {
    for (const auto& [op, wanted] : tests.members()) {
      if (!holds(op, metadata.get(field), wanted)) return false;
    }
  }
  return true;
}

}  // namespace sallyport::adapters
