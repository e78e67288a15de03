#include "contest.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace sallyport::bench {
namespace {

struct Sample {
  double wall;
  double cpu;
};

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

Sample measure(const Contender& contender) {
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = ::fork();
  if (child == 0) {
    contender.run();
    ::_exit(0);
  }
  int status = 0;
  rusage usage{};
  ::wait4(child, &status, 0, &usage);
  if (!WIFEXITED(status) || WEXITSTATUS(status) > 1) {
    std::fprintf(stderr, "%s failed\n", contender.name.c_str());
    std::exit(1);
  }
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return {wall, seconds(usage.ru_utime) + seconds(usage.ru_stime)};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

void contest(const std::string& title, const std::vector<Contender>& contenders, int rounds) {
  std::vector<std::vector<Sample>> samples(contenders.size());
  for (const Contender& contender : contenders) measure(contender);
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < contenders.size(); ++i) samples[i].push_back(measure(contenders[i]));
  }
  std::printf("%s\n", title.c_str());
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    std::vector<double> wall;
    std::vector<double> cpu;
    std::vector<double> wall_ratio;
    std::vector<double> cpu_ratio;
    for (std::size_t round = 0; round < samples[i].size(); ++round) {
      wall.push_back(samples[i][round].wall);
      cpu.push_back(samples[i][round].cpu);
      wall_ratio.push_back(samples[i][round].wall / samples[0][round].wall);
      cpu_ratio.push_back(samples[i][round].cpu / samples[0][round].cpu);
    }
    std::printf("  %-34s %8.1f ms  cpu %8.1f ms", contenders[i].name.c_str(), median(wall) * 1e3, median(cpu) * 1e3);
    if (i > 0) std::printf("   ratio to ours: time %.2fx  cpu %.2fx", median(wall_ratio), median(cpu_ratio));
    std::printf("\n");
  }
  std::fflush(stdout);
}

std::function<void()> program(std::vector<std::string> arguments, std::string directory) {
  return [arguments = std::move(arguments), directory = std::move(directory)] {
    const int out = ::open("/dev/shm", O_TMPFILE | O_WRONLY, 0600);
    ::dup2(out, 1);
    if (::chdir(directory.c_str()) != 0) ::_exit(9);
    std::vector<char*> argv;
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    ::execvp(argv[0], argv.data());
    ::_exit(9);
  };
}

}  // namespace sallyport::bench
