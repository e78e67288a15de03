#include "decisions.h"

#include <time.h>

#include <cstdio>
#include <cstdlib>

#include "../ipc/stats.h"
#include "policy/policy.h"

namespace sallyport::bench {
namespace {

using namespace policy;

constexpr int kRules = 500;
constexpr int kRounds = 50'000;
constexpr int kRepeats = 9;

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

// Of the CPU: a decision waits for nothing, and what others take of the machine is not its cost.
double thread_microseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

template <typename Work>
double microseconds(Work&& work) {
  std::vector<double> times;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const double start = thread_microseconds();
    for (int i = 0; i < kRounds; ++i) work();
    times.push_back((thread_microseconds() - start) / kRounds);
  }
  return median(std::move(times));
}

}  // namespace

std::vector<DecisionCost> measure_decisions() {
  const SystemClock clock;
  const Tokens tokens(clock);
  Engine engine(HostPolicy(), tokens);
  const auto profiles = Profiles::load("/nonexistent");
  const auto rules = parse_rules(make_rules(), "bench");
  if (!profiles || !rules) {
    std::fprintf(stderr, "%s\n", (profiles ? rules.error() : profiles.error()).message.c_str());
    std::exit(EXIT_FAILURE);
  }
  wire::Decoder decoder;
  const auto payload = decoder.parse(R"({"commit":"0123456789abcdef","branch":"rel-7","prompt":"go on"})");
  const Principal principal = Principal::container("c1");
  const ContainerPolicy policy = container_policy(*profiles->find("default"));
  std::vector<DecisionCost> costs;
  std::size_t kept = 0;
  const auto measure = [&](const char* what, bool has_many_rules, std::string_view asked) {
    const Question question{principal, 1, asked, "", payload->root()};
    DecisionCost cost{.what = what, .has_many_rules = has_many_rules};
    cost.explained_us = microseconds([&] { kept += engine.consider(question).also_matched.size() + 1; });
    cost.at_once_us = microseconds([&] { kept += engine.permit_at_once(question).has_value() ? 1 : 0; });
    costs.push_back(std::move(cost));
  };
  engine.set_container("c1", policy);
  measure("built-in profile, fs.read", false, "fs.read");
  engine.replace(HostPolicy(), *rules);
  engine.set_container("c1", policy);
  measure("500 rules, fs.read", true, "fs.read");
  measure("500 rules, deploy with payload", true, "deploy");
  measure("500 rules, a group's method", true, "group490.read");
  measure("500 rules, an unknown name", true, "no.such.method");
  if (kept == 0) std::exit(EXIT_FAILURE);  // nothing was decided: nothing was measured
  return costs;
}

}  // namespace sallyport::bench
