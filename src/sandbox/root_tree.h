// The tree of a sandbox's new root: which paths are links, scratch space or mounts of the host's, and the steps that
// build it. Nothing is done here; paths are absolute and resolved by the caller.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sandbox/plan.h"

namespace sallyport::sandbox {

bool is_directory(const std::string& path);

// Keyed by path: a parent always comes before its children.
class RootTree {
 public:
  enum class Kind : std::uint8_t { link, scratch, bind };
  struct Entry {
    Kind kind;
    std::string source;
    bool is_writable = false;
    std::uint64_t attributes = 0;
    unsigned mode = 0755;
  };

  void link(const std::string& path, const std::string& text) { entries_[path] = {Kind::link, text}; }
  void scratch(const std::string& path, unsigned mode, std::uint64_t attributes);
  // Of two for one path, the writable one stays.
  void bind(const std::string& path, const std::string& source, bool is_writable, std::uint64_t attributes);
  void remove_beneath(const std::string& path);
  // A read-only bind below a read-only bind of the same tree adds a mount and no meaning.
  void drop_redundant();

  // The nearest entry above the path, not the one at it.
  const Entry* above(const std::string& path, std::string* at = nullptr) const;
  bool is_visible(const std::string& path) const;
  std::vector<Item> items() const;
  const std::map<std::string, Entry>& entries() const { return entries_; }

 private:
  void make_parents(const std::string& path, std::map<std::string, bool>& made, std::vector<Item>& out) const;

  std::map<std::string, Entry> entries_;
};

}  // namespace sallyport::sandbox
