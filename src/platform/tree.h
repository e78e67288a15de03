// A configuration as a tree that remembers where each part stood, so that a fault names file, line and column
// whether it was written in TOML or in JSON.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"

namespace sallyport::platform {

struct Where {
  std::uint32_t line = 0, column = 0;
};

struct Node {
  enum class Kind : std::uint8_t { nothing, boolean, integer, number, text, array, object };
  struct Member;

  Kind kind = Kind::nothing;
  Where where;
  bool boolean = false;
  std::int64_t integer = 0;
  std::string text;
  std::vector<Node> items;
  std::vector<Member> members;

  const Node* find(std::string_view name) const;
};

struct Node::Member {
  std::string name;
  Where where;
  Node value;
};

// "FILE:LINE:COLUMN: what is wrong".
Error fault(const std::string& path, const Where& where, const std::string& what);

// JSON, as strictly as the wire reads it.
Result<Node> tree_from_json(std::string_view text, const std::string& path);

// Reads one member's value; an error is the sentence behind its name.
using Reader = std::function<std::optional<std::string>(const Node&)>;
using Readers = std::map<std::string, Reader, std::less<>>;

Reader read_text(std::string& target);
Reader read_texts(std::vector<std::string>& target);  // an array of texts, or one text
Reader read_text_map(std::map<std::string, std::string>& target);
Reader read_integer(std::int64_t least, std::int64_t most, const std::function<void(std::int64_t)>& set);
// Every member through its reader; an unknown one is a fault. `name` is what the object is called.
Status read_object(const std::string& path, const std::string& name, const Node& node, const Readers& readers);

}  // namespace sallyport::platform
