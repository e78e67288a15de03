// Contenders measured side by side: each run in a process of its own, interleaved, medians of ratios.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace sallyport::bench {

struct Contender {
  std::string name;
  std::function<void()> run;  // in a child; its exit ends it
};

// Runs the contenders `rounds` times in turn after one warm-up each, and prints the median time and CPU time
// of each, and the median ratio of every other one to the first: above 1 the first is faster.
void contest(const std::string& title, const std::vector<Contender>& contenders, int rounds);

// exec of a program with its output in a file that is thrown away (programs may notice /dev/null).
std::function<void()> program(std::vector<std::string> arguments, std::string directory);

}  // namespace sallyport::bench
