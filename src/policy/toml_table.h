// Reading TOML tables with a closed set of keys; a fault names file, line, column and word. For .cpp files
// only: toml++ is a heavy header.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#define TOML_EXCEPTIONS 0
// The parser claims what a file need not hold ("[" before a key, and then takes care of the rest): as an assertion
// it would end a warden that is asked to reload, as an assumption it would be worse.
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(expr) static_cast<void>(0)
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

#include "base/base.h"

namespace sallyport::policy::toml_table {

inline Error fault(const std::string& path, const toml::source_region& where, const std::string& what) {
  return Error::make(Code::invalid_params, path + ":" + std::to_string(where.begin.line) + ":" +
                                               std::to_string(where.begin.column) + ": " + what);
}

// Reads one key's value; an error is the sentence behind the key's name.
using Setter = std::function<std::optional<std::string>(const toml::node&)>;
using Setters = std::map<std::string, Setter>;

Setter integer(std::int64_t least, std::int64_t most, const std::function<void(std::int64_t)>& set);
Setter boolean(bool& target);
Setter milliseconds(Millis& target);
Setter count(std::size_t& target);
Setter strings(std::vector<std::string>& target);
// A table of text.
Setter string_map(std::map<std::string, std::string>& target);
// Text or a number, as `parse` understands it: "4GiB", "2h".
Setter parsed(const std::function<std::optional<std::string>(const std::string&)>& parse);

Result<toml::table> parse(std::string_view text, const std::string& path);
// Every key of the node, which must be a table, through its setter. Keys of tables inside are given as
// "fs.read" when a setter "fs" does not exist.
Status read(const std::string& path, std::string_view name, const toml::node& node, const Setters& setters);

}  // namespace sallyport::policy::toml_table
