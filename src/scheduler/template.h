// Command lines of the configuration with {placeholders}. Only what the host knows by itself can stand in one,
// never a word that a container chose freely: that goes to the program's stdin.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sallyport::scheduler {

using Placeholders = std::map<std::string, std::string, std::less<>>;

// The sentence that says what is wrong with a template; none if it is good.
std::optional<std::string> check_template(const std::vector<std::string>& arguments,
                                          const std::vector<std::string_view>& names);
std::vector<std::string> fill_template(const std::vector<std::string>& arguments, const Placeholders& values);

}  // namespace sallyport::scheduler
