#include "probe.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace probe {

int judge(long result) {
  if (result >= 0) {
    std::puts("worked");
    return kSucceeded;
  }
  std::printf("refused: %s\n", ::strerrorname_np(errno));
  return kRefused;
}

int judge(bool has_worked) {
  std::puts(has_worked ? "worked" : "refused");
  return has_worked ? kSucceeded : kRefused;
}

}  // namespace probe

int main(int argc, char** argv) {
  if (argc < 2) return probe::kBroken;
  const probe::Arguments arguments(argv + 2, argv + argc);
  for (const auto& table :
       {probe::file_attacks(), probe::kernel_attacks(), probe::process_attacks(), probe::network_attacks()}) {
    for (const probe::Attack& attack : table) {
      if (std::strcmp(attack.name, argv[1]) == 0 && arguments.size() == attack.arguments) return attack.run(arguments);
    }
  }
  std::printf("no such attack: %s with %zu arguments\n", argv[1], arguments.size());
  return probe::kBroken;
}
