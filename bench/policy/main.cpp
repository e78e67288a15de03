// Prints what a decision costs: 500 rules, and the built-in profile alone.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "policy/policy.h"

using namespace sallyport;
using namespace sallyport::policy;

namespace {

constexpr int kRules = 500;
constexpr int kRounds = 200'000;
constexpr int kRepeats = 5;

// Half of them about names of their own, the others about groups; every fifth looks into the payload.
std::string make_rules() {
  std::string text;
  for (int i = 0; i < kRules; ++i) {
    const std::string number = std::to_string(i);
    text += "[[rule]]\nname = \"r" + number + "\"\n";
    text += i % 2 == 0 ? "match = [\"group" + number + ".*\"]\n"
                       : "match = [\"signal_" + number + "\", \"m.x" + number + "\"]\n";
    text += i % 3 == 0 ? "effect = \"human\"\n" : "effect = \"allow\"\n";
    if (i % 5 == 0) text += "when = { branch = { glob = \"rel-*\" }, prompt = { max_length = 1000 } }\n";
  }
  // And some that concern the names that are asked for.
  text += "[[rule]]\nname = \"all\"\nmatch = \"*\"\nrate = \"1000/min\"\n";
  text +=
      "[[rule]]\nname = \"deploy\"\nmatch = \"deploy\"\neffect = [\"deputy\", \"human\"]\nwhen = { branch = { prefix = "
      "\"rel\" } }\n";
  return text;
}

template <typename Work>
double nanoseconds(Work&& work) {
  double best = 1e18;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kRounds; ++i) work();
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
    best = std::min(best, time.count() / kRounds);
  }
  return best;
}

}  // namespace

int main() {
  const SystemClock clock;
  const Tokens tokens(clock);
  Engine engine(HostPolicy(), tokens);
  const auto profiles = Profiles::load("/nonexistent");
  const auto rules = parse_rules(make_rules(), "bench");
  if (!profiles || !rules) {
    std::fprintf(stderr, "%s\n", (profiles ? rules.error() : profiles.error()).message.c_str());
    return EXIT_FAILURE;
  }
  wire::Decoder decoder;
  const auto payload = decoder.parse(R"({"commit":"0123456789abcdef","branch":"rel-7","prompt":"go on"})");
  const Principal principal = Principal::container("c1");
  const ContainerPolicy policy = container_policy(*profiles->find("default"));
  std::size_t kept = 0;
  const auto measure = [&](const char* name, std::string_view asked) {
    const Question question{principal, 1, asked, "", payload->root()};
    const double full = nanoseconds([&] { kept += engine.consider(question).also_matched.size(); });
    const double quick = nanoseconds([&] { kept += engine.permit_at_once(question).has_value() ? 1 : 0; });
    std::printf("%-34s %8.0f ns explained  %6.0f ns permit at once\n", name, full, quick);
  };
  engine.set_container("c1", policy);
  measure("built-in profile, fs.read", "fs.read");
  engine.replace(HostPolicy(), *rules);
  engine.set_container("c1", policy);
  measure("500 rules, fs.read", "fs.read");
  measure("500 rules, deploy with payload", "deploy");
  measure("500 rules, a group's method", "group490.read");
  measure("500 rules, an unknown name", "no.such.method");
  std::printf("target: at most 2000 ns with 500 rules\n");
  return kept == 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
