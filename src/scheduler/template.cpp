#include "scheduler/template.h"

#include <algorithm>

namespace sallyport::scheduler {
namespace {

// Calls back with each piece of a word: text as it is, or the name between braces. A lone brace is text.
template <typename OnText, typename OnName>
void split(std::string_view word, const OnText& on_text, const OnName& on_name) {
  while (!word.empty()) {
    const std::size_t open = word.find('{');
    const std::size_t close = open == std::string_view::npos ? open : word.find('}', open);
    if (close == std::string_view::npos) return on_text(word);
    on_text(word.substr(0, open));
    on_name(word.substr(open + 1, close - open - 1));
    word.remove_prefix(close + 1);
  }
}

}  // namespace

std::optional<std::string> check_template(const std::vector<std::string>& arguments,
                                          const std::vector<std::string_view>& names) {
  if (arguments.empty()) return "must name a program";
  if (arguments[0][0] != '/' || arguments[0].find('{') != std::string::npos) {
    return "must begin with the program's absolute path, not '" + arguments[0] + "'";
  }
  std::optional<std::string> problem;
  for (const std::string& argument : arguments) {
    split(
        argument, [](std::string_view) {},
        [&](std::string_view name) {
          if (problem || std::find(names.begin(), names.end(), name) != names.end()) return;
          problem = "has the unknown placeholder {" + std::string(name) + "}; there are";
          for (const std::string_view known : names) *problem += " {" + std::string(known) + "}";
        });
  }
  return problem;
}

std::vector<std::string> fill_template(const std::vector<std::string>& arguments, const Placeholders& values) {
  std::vector<std::string> filled;
  for (const std::string& argument : arguments) {
    std::string& to = filled.emplace_back();
    split(
        argument, [&](std::string_view text) { to += text; },
        [&](std::string_view name) {
          const auto value = values.find(name);
          if (value != values.end()) to += value->second;
        });
  }
  return filled;
}

}  // namespace sallyport::scheduler
