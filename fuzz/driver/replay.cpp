// replay COUNT DIRECTORY...: a main for a fuzz target without a fuzzer.
//
// Feeds the target the empty input, every seed in the directories (*.bin of a directory that has
// any, else all files; missing directories are ignored) and then mutations of them, COUNT inputs in
// all. The generator's seed is a constant: every run sees the same inputs. An input that kills the
// target is written to crash-<program> in the working directory.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace {

using Input = std::vector<std::uint8_t>;

// Mutations of a longer seed start from its head: time goes into many inputs, not into long ones.
constexpr std::size_t kMutatedHead = 16 * 1024;

// What the handlers of a dying process may still read.
const Input* current_input = nullptr;
std::string crash_path;

void save_current_input() {
  if (current_input == nullptr) return;
  const int fd = ::open(crash_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return;
  [[maybe_unused]] const ssize_t written = ::write(fd, current_input->data(), current_input->size());
  ::close(fd);
  static constexpr char kNote[] = "replay: the input that did it is in the working directory, crash-*\n";
  [[maybe_unused]] const ssize_t noted = ::write(STDERR_FILENO, kNote, sizeof kNote - 1);
}

void on_fatal_signal(int signal) {
  save_current_input();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

class XorShift {
 public:
  std::uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : static_cast<std::size_t>(next() % bound); }
  std::uint8_t byte() { return static_cast<std::uint8_t>(next()); }

 private:
  std::uint64_t state_ = 0x5a11'7041'5a11'7041;
};

// Bytes that parsers treat specially: lengths at their limits, JSON's structure, bad UTF-8.
constexpr std::array<std::uint8_t, 20> kTelling = {0x00, 0x01, 0x02, 0x7f, 0x80, 0xff, 0xfe, '{', '}', '[',
                                                   ']',  '"',  '\\', ':',  ',',  '0',  '-',  'e', 'u', 0xc0};

void mutate_once(Input& input, const std::vector<Input>& seeds, XorShift& random) {
  const auto at = [&](std::size_t slack) { return random.below(input.size() + slack); };
  const auto place = [&](std::size_t index) { return input.begin() + static_cast<std::ptrdiff_t>(index); };
  switch (random.below(8)) {
    case 0:
      if (!input.empty()) input[at(0)] ^= static_cast<std::uint8_t>(1U << random.below(8));
      break;
    case 1:
      if (!input.empty()) input[at(0)] = random.byte();
      break;
    case 2:
      if (!input.empty()) input[at(0)] = kTelling.at(random.below(kTelling.size()));
      break;
    case 3:
      input.insert(place(at(1)), kTelling.at(random.below(kTelling.size())));
      break;
    case 4: {  // a big-endian number near a limit
      const std::array<std::uint32_t, 8> numbers = {0,        1,          0xfffff,    0x100000,
                                                    0x100001, 0x7fffffff, 0x80000000, 0xffffffff};
      const std::uint32_t number = numbers.at(random.below(numbers.size()));
      const std::size_t start = random.below(4) == 0 ? at(1) : 0;
      for (std::size_t i = 0; i < 4 && start + i < input.size(); ++i) {
        input[start + i] = static_cast<std::uint8_t>(number >> (24 - 8 * i));
      }
      break;
    }
    case 5:
      input.resize(at(1));
      break;
    case 6: {  // drop a piece
      const std::size_t start = at(1);
      const std::size_t length = std::min(random.below(16), input.size() - start);
      input.erase(place(start), place(start + length));
      break;
    }
    default: {  // the head of this one and the tail of another
      const Input& other = seeds[random.below(seeds.size())];
      const std::size_t from = random.below(other.size() + 1);
      const std::size_t count = std::min(other.size() - from, kMutatedHead);
      input.resize(at(1));
      input.insert(input.end(), other.begin() + static_cast<std::ptrdiff_t>(from),
                   other.begin() + static_cast<std::ptrdiff_t>(from + count));
    }
  }
}

void run(const Input& input) {
  current_input = &input;
  // An exact-size heap block, so that a sanitizer sees a read past the end.
  const Input copy(input);  // NOLINT(performance-unnecessary-copy-initialization)
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
  current_input = nullptr;
}

std::vector<Input> read_seeds(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> paths;
  if (!std::filesystem::is_directory(directory)) return {};
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  const auto is_binary = [](const std::filesystem::path& path) { return path.extension() == ".bin"; };
  if (std::ranges::any_of(paths, is_binary)) std::erase_if(paths, std::not_fn(is_binary));
  std::ranges::sort(paths);
  std::vector<Input> seeds;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return seeds;
}

}  // namespace

int main(int argc, char** argv) {
  const long wanted = argc >= 3 ? std::strtol(argv[1], nullptr, 10) : 0;
  if (wanted <= 0) {
    std::fprintf(stderr, "usage: %s COUNT SEED_DIRECTORY...\n", argv[0]);
    return 2;
  }
  crash_path = "crash-" + std::filesystem::path(argv[0]).filename().string();
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(save_current_input);
    std::signal(SIGABRT, on_fatal_signal);
  } else {
    for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(signal, on_fatal_signal);
  }

  std::vector<Input> seeds = {{}};
  for (int i = 2; i < argc; ++i) {
    for (Input& seed : read_seeds(argv[i])) seeds.push_back(std::move(seed));
  }
  long count = 0;
  for (const Input& seed : seeds) {
    run(seed);
    ++count;
  }
  XorShift random;
  for (; count < wanted; ++count) {
    Input input = seeds[random.below(seeds.size())];
    input.resize(std::min(input.size(), kMutatedHead));
    for (std::size_t left = 1 + random.below(6); left > 0; --left) mutate_once(input, seeds, random);
    run(input);
  }
  std::printf("%ld inputs from %zu seeds\n", count, seeds.size());
  return 0;
}
