#include "platform/tree.h"

#include "wire/json.h"

namespace sallyport::platform {
namespace {

// Walks text that is known to be valid JSON beside its parsed form, and notes where each part stands. Of text that is
// not, only where a byte of it stands.
class Locator {
 public:
  explicit Locator(std::string_view text) : text_(text) {}

  Where locate(std::size_t offset) {
    while (at_ < offset) advance();
    return where_;
  }

  Node locate(wire::Value value) {
    skip_to_token();
    Node node;
    node.where = where_;
    if (value.is_object()) {
      node.kind = Node::Kind::object;
      advance();  // the brace
      for (const auto& [name, member] : value.members()) {
        skip_to_token();
        const Where where = where_;
        skip_scalar();
        node.members.push_back({std::string(name), where, locate(member)});
      }
      skip_to_token();
      advance();
    } else if (value.is_array()) {
      node.kind = Node::Kind::array;
      advance();
      for (const wire::Value item : value.items()) node.items.push_back(locate(item));
      skip_to_token();
      advance();
    } else {
      read_scalar(value, node);
      skip_scalar();
    }
    return node;
  }

 private:
  static void read_scalar(wire::Value value, Node& node) {
    if (const auto text = value.as_string()) {
      node.kind = Node::Kind::text;
      node.text = *text;
    } else if (const auto flag = value.as_bool()) {
      node.kind = Node::Kind::boolean;
      node.boolean = *flag;
    } else if (const auto integer = value.as_int()) {
      node.kind = Node::Kind::integer;
      node.integer = *integer;
    } else if (value.as_double()) {
      node.kind = Node::Kind::number;
    }
  }

  bool at_end() const { return at_ >= text_.size(); }
  void advance() {
    if (at_end()) return;
    if (text_[at_++] == '\n') {
      ++where_.line;
      where_.column = 1;
    } else {
      ++where_.column;
    }
  }
  // Over blanks and the punctuation between values.
  void skip_to_token() {
    while (!at_end() && std::string_view(" \t\r\n,:").find(text_[at_]) != std::string_view::npos) advance();
  }
  void skip_scalar() {
    if (!at_end() && text_[at_] == '"') {
      advance();
      while (!at_end() && text_[at_] != '"') {
        if (text_[at_] == '\\') advance();
        advance();
      }
      advance();
      return;
    }
    while (!at_end() && std::string_view(" \t\r\n,:]}").find(text_[at_]) == std::string_view::npos) advance();
  }

  std::string_view text_;
  std::size_t at_ = 0;
  Where where_{1, 1};
};

}  // namespace

const Node* Node::find(std::string_view name) const {
  for (const Member& member : members) {
    if (member.name == name) return &member.value;
  }
  return nullptr;
}

Error fault(const std::string& path, const Where& where, const std::string& what) {
  return Error::make(Code::invalid_params,
                     path + ":" + std::to_string(where.line) + ":" + std::to_string(where.column) + ": " + what);
}

Result<Node> tree_from_json(std::string_view text, const std::string& path) {
  wire::Decoder decoder;
  auto document = decoder.parse(text);
  if (!document) {
    return fault(path, Locator(text).locate(decoder.fault_at()), "is no valid JSON: " + document.error().message);
  }
  return Locator(text).locate(document->root());
}

Reader read_text(std::string& target) {
  return [&target](const Node& node) -> std::optional<std::string> {
    if (node.kind != Node::Kind::text || node.text.empty()) return "must be text";
    target = node.text;
    return std::nullopt;
  };
}

Reader read_texts(std::vector<std::string>& target) {
  return [&target](const Node& node) -> std::optional<std::string> {
    std::vector<std::string> all;
    if (node.kind == Node::Kind::text && !node.text.empty()) {
      all.push_back(node.text);
    } else if (node.kind == Node::Kind::array) {
      for (const Node& item : node.items) {
        if (item.kind != Node::Kind::text || item.text.empty()) return "must hold texts only";
        all.push_back(item.text);
      }
    } else {
      return "must be text or an array of texts";
    }
    target = std::move(all);
    return std::nullopt;
  };
}

Reader read_text_map(std::map<std::string, std::string>& target) {
  return [&target](const Node& node) -> std::optional<std::string> {
    if (node.kind != Node::Kind::object) return "must be a table of texts";
    for (const Node::Member& member : node.members) {
      if (member.value.kind != Node::Kind::text) return "must be a table of texts";
      target[member.name] = member.value.text;
    }
    return std::nullopt;
  };
}

Reader read_integer(std::int64_t least, std::int64_t most, const std::function<void(std::int64_t)>& set) {
  return [=](const Node& node) -> std::optional<std::string> {
    if (node.kind != Node::Kind::integer || node.integer < least || node.integer > most) {
      return "must be an integer from " + std::to_string(least) + " to " + std::to_string(most);
    }
    set(node.integer);
    return std::nullopt;
  };
}

Status read_object(const std::string& path, const std::string& name, const Node& node, const Readers& readers) {
  if (node.kind != Node::Kind::object) return fault(path, node.where, name + " must be a table");
  for (const Node::Member& member : node.members) {
    const auto reader = readers.find(member.name);
    if (reader == readers.end()) {
      return fault(path, member.where, "unknown key '" + escape_for_display(member.name) + "' in " + name);
    }
    if (const auto problem = reader->second(member.value)) {
      return fault(path, member.value.where, "'" + member.name + "' " + *problem);
    }
  }
  return ok();
}

}  // namespace sallyport::platform
