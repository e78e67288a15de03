#include "platform/tree_toml.h"

namespace sallyport::platform {
namespace {

Where where_of(const toml::source_region& region) { return {region.begin.line, region.begin.column}; }

}  // namespace

Node tree_from_toml(const toml::node& node) {
  Node tree;
  tree.where = where_of(node.source());
  if (const toml::table* table = node.as_table()) {
    tree.kind = Node::Kind::object;
    for (const auto& [key, value] : *table) {
      tree.members.push_back({std::string(key.str()), where_of(key.source()), tree_from_toml(value)});
    }
  } else if (const toml::array* array = node.as_array()) {
    tree.kind = Node::Kind::array;
    for (const toml::node& item : *array) tree.items.push_back(tree_from_toml(item));
  } else if (const auto text = node.value_exact<std::string>()) {
    tree.kind = Node::Kind::text;
    tree.text = *text;
  } else if (const auto flag = node.value_exact<bool>()) {
    tree.kind = Node::Kind::boolean;
    tree.boolean = *flag;
  } else if (const auto integer = node.value_exact<std::int64_t>()) {
    tree.kind = Node::Kind::integer;
    tree.integer = *integer;
  } else if (node.is_floating_point()) {
    tree.kind = Node::Kind::number;
  }
  return tree;
}

}  // namespace sallyport::platform
