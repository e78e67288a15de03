// A directory of a test's own, with a root inside it and an outside beside it, gone afterwards.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "worker/root.h"

namespace sallyport::worker {

class SandboxDir {
 public:
  SandboxDir() {
    const char* base = std::getenv("TMPDIR");
    std::string pattern = std::string(base != nullptr ? base : "/tmp") + "/sallyport-worker-XXXXXX";
    top_ = ::mkdtemp(pattern.data());
    std::filesystem::create_directories(root());
    std::filesystem::create_directories(outside());
    write_outside("secret", "SECRET\n");
  }
  ~SandboxDir() {
    std::error_code ignored;
    std::filesystem::remove_all(top_, ignored);
  }
  SandboxDir(const SandboxDir&) = delete;
  SandboxDir& operator=(const SandboxDir&) = delete;

  std::string root() const { return top_ + "/root"; }
  std::string outside() const { return top_ + "/outside"; }
  std::string path(std::string_view name) const { return root() + "/" + std::string(name); }

  void write(std::string_view name, std::string_view content) const { put(path(name), content); }
  void write_outside(std::string_view name, std::string_view content) const {
    put(outside() + "/" + std::string(name), content);
  }
  std::string read(std::string_view name) const { return get(path(name)); }
  std::string read_outside(std::string_view name) const { return get(outside() + "/" + std::string(name)); }
  bool exists(std::string_view name) const {
    return std::filesystem::exists(std::filesystem::symlink_status(path(name)));
  }
  void link(std::string_view name, std::string_view target) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::filesystem::create_symlink(target, path(name));
  }
  void mkdir(std::string_view name) const { std::filesystem::create_directories(path(name)); }
  Roots open(Roots::Options options = {}) const { return *Roots::open({root()}, options); }

 private:
  static void put(const std::string& path, std::string_view content) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream out(path, std::ios::binary);
    out.write(content.data(), static_cast<std::streamsize>(content.size()));
  }
  static std::string get(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::string top_;
};

}  // namespace sallyport::worker
