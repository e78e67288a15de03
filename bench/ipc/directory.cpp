#include "directory.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace sallyport::bench {
namespace {

std::filesystem::path place_of(Directory::For whom) {
  if (whom == Directory::For::workspace) return std::filesystem::temp_directory_path();
  const char* chosen = std::getenv("SALLYPORT_BENCH_DIR");
  return chosen != nullptr ? chosen : "/dev/shm";
}

}  // namespace

Directory::Directory(For whom) : path_((place_of(whom) / "sallyport-bench-XXXXXX").string()) {
  if (::mkdtemp(path_.data()) != nullptr) return;
  std::perror(path_.c_str());
  std::exit(1);
}

Directory::~Directory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace sallyport::bench
