// A bounded walk through a directory that may be hostile: links are never followed, also those that others exchange
// for directories meanwhile.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sandbox/held_directory.h"
#include "sandbox/protect.h"

namespace sallyport::sandbox {

struct WalkEntry {
  std::string path;  // absolute
  std::string_view name;
  unsigned char type;  // DT_DIR, DT_REG, DT_LNK, DT_SOCK, ...
};

struct WalkResult {
  bool was_cut = false;
  bool has_changed = false;             // a directory was moved or removed between being listed and being read
  std::vector<std::string> unreadable;  // directories that their own modes close
  std::uint64_t entries = 0, path_bytes = 0;
};

// `visit` returns whether to go into a directory; its answer for anything else is ignored. `from` is the root itself or
// a directory below it.
WalkResult walk(const HeldDirectory& root, const std::string& from, const WalkBounds& bounds,
                const std::function<bool(const WalkEntry&)>& visit);
WalkResult walk(const std::string& root, const WalkBounds& bounds, const std::function<bool(const WalkEntry&)>& visit);

}  // namespace sallyport::sandbox
