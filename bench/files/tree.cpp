#include "tree.h"

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <string_view>

namespace sallyport::bench {
namespace {

constexpr std::array<std::string_view, 48> kWords = {
    "static", "const", "int",  "return", "if",     "for",    "while",   "buffer", "length", "offset",
    "struct", "void",  "char", "size_t", "error",  "result", "request", "reply",  "state",  "index",
    "count",  "value", "node", "next",   "parent", "child",  "name",    "path",   "open",   "close",
    "read",   "write", "lock", "unlock", "thread", "queue",  "token",   "parse",  "encode", "decode",
    "(",      ")",     "{",    "}",      "=",      "->",     ";",       "//"};

// Enough for a tree that never changes; std::distributions differ between libraries.
class Random {
 public:
  std::uint64_t next() { return engine_(); }
  std::size_t below(std::size_t n) { return next() % n; }
  // Median 2 KiB, a long tail up to 1 MiB.
  std::size_t file_size() {
    double sum = 0;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(next() % 1'000'000) / 1e6;
    const double size = 2048 * std::exp((sum - 6) * 1.2);
    return static_cast<std::size_t>(std::min(size, 1048576.0));
  }

 private:
  std::mt19937_64 engine_{20240229};
};

void write_text(Random& random, const std::string& path, std::size_t size, bool is_rare) {
  std::string text;
  text.reserve(size + 128);
  while (text.size() < size) {
    text.append(random.below(4) * 2, ' ');
    for (std::size_t words = 2 + random.below(9); words > 0; --words)
      text.append(kWords[random.below(kWords.size())]).append(" ");
    text.back() = '\n';
  }
  if (is_rare) text.insert(text.find('\n', text.size() / 2) + 1, std::string("  call(") + kRareWord + ");\n");
  std::ofstream(path, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
}

void write_binary(Random& random, const std::string& path, std::size_t size) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.next());
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

TreeFacts make_tree(const std::string& root, std::size_t files) {
  TreeFacts facts;
  const std::string mark = root + ".complete";
  if (std::ifstream done(mark); done >> facts.files >> facts.bytes && facts.files >= files) return facts;
  std::filesystem::remove_all(root);
  std::filesystem::create_directories(root + "/.git/info");
  std::ofstream(root + "/.git/HEAD") << "ref: refs/heads/main\n";
  std::ofstream(root + "/.gitignore") << "build/\n*.o\n*.log\nnode_modules/\n/tmp\n!keep.log\n*.py[cod]\n.cache/\n";
  constexpr std::array<std::string_view, 8> kExtensions = {".c", ".c", ".h", ".cpp", ".py", ".md", ".txt", ".log"};
  Random random;
  while (facts.files < files) {
    std::string directory =
        root + "/pkg" + std::to_string(random.below(60)) + "/mod" + std::to_string(random.below(20));
    if (random.below(3) == 0) directory += "/sub" + std::to_string(random.below(6));
    if (random.below(8) == 0)
      directory += "/node_modules/dep" + std::to_string(random.below(10));
    else if (random.below(16) == 0)
      directory += "/build";
    std::filesystem::create_directories(directory);
    for (std::size_t i = 8 + random.below(24); i > 0; --i) {
      const std::size_t size = random.file_size();
      const std::string name = directory + "/file" + std::to_string(facts.files);
      if (random.below(40) == 0)
        write_binary(random, name + ".o", size);
      else
        write_text(random, name + std::string(kExtensions[random.below(kExtensions.size())]), size,
                   facts.files % 200 == 0);
      ++facts.files;
      facts.bytes += size;
    }
    if (random.below(10) == 0) std::ofstream(directory + "/.gitignore") << "*.tmp\nfile*7.txt\n";
  }
  std::ofstream(mark) << facts.files << " " << facts.bytes << "\n";
  return facts;
}

}  // namespace sallyport::bench
