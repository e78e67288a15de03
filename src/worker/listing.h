// The entries of one directory, straight from getdents64.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "worker/walk.h"

namespace sallyport::worker {

// Reused from directory to directory, so that a walk allocates little.
class Listing {
 public:
  struct Entry {
    std::uint32_t offset;
    std::uint16_t length;
    EntryKind kind;
  };

  // Reads all entries but `.` and `..`. False with errno set if the directory cannot be read.
  bool read(int directory);
  // By name, with directories as if their names ended in a slash: the order of whole paths.
  void sort();

  const std::vector<Entry>& entries() const { return entries_; }
  std::string_view name(const Entry& entry) const { return {names_.data() + entry.offset, entry.length}; }
  // Names are followed by a NUL, for system calls.
  const char* c_name(const Entry& entry) const { return names_.data() + entry.offset; }
  bool has_gitignore() const { return has_gitignore_; }
  bool has_git() const { return has_git_; }

 private:
  void add(int directory, const char* name, unsigned char type);

  std::vector<char> buffer_;
  std::string names_;
  std::vector<Entry> entries_;
  bool has_gitignore_ = false;
  bool has_git_ = false;
};

}  // namespace sallyport::worker
