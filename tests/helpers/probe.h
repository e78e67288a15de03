// sp_probe ATTACK [ARGUMENTS]: tries one attack and says how it went.
//
// Exit status: kRefused if the attack was stopped, kSucceeded if it worked, kBroken if it could not
// even be tried. The table of attacks is the sum of the tables of the probe_*.cpp files.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace probe {

constexpr int kRefused = 7;
constexpr int kSucceeded = 42;
constexpr int kBroken = 99;

using Arguments = std::vector<std::string>;

struct Attack {
  const char* name;
  std::size_t arguments;
  int (*run)(const Arguments&);
};

std::span<const Attack> file_attacks();
std::span<const Attack> kernel_attacks();
std::span<const Attack> process_attacks();
std::span<const Attack> network_attacks();

// kSucceeded if the call returned 0 or more; else prints the errno's name and answers kRefused.
int judge(long result);
int judge(bool has_worked);

}  // namespace probe
