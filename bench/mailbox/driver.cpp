// From a dropped file to its answer, beside watchdog and chokidar: one table, every row with its target.
//   bench_mailbox_driver SERVER SCRIPTS DIRECTORY [--quick] [--json] [--contest NAME]... [--only CONTENDER]...
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "../ipc/stats.h"
#include "../ledger/records.h"
#include "../policy/decisions.h"
#include "contest.h"
#include "wire/json.h"

using namespace sallyport::bench;

namespace {

struct Settings {
  int rounds = 3, paced = 600, overflow = 40'000, records = 20'000;
  int burst_boxes = 20, sweep_boxes = 100, per_box = 1000, more_per_box = 20;
  bool is_json = false;
  std::set<std::string> contests = {"paced", "awake", "burst", "sweep", "overflow"};
  std::set<std::string> only;  // of the contenders; empty: all
};

// Everything that one contender showed, a value per round.
struct Scores {
  std::vector<Paced> paced, awake;
  std::vector<Bulk> burst, sweep, overflow;

  int lost() const {
    int total = 0;
    for (const Paced& each : paced) total += each.lost;
    for (const Paced& each : awake) total += each.lost;
    for (const auto* all : {&burst, &sweep, &overflow}) {
      for (const Bulk& each : *all) total += each.lost;
    }
    return total;
  }
  int sent(const Settings& settings) const {
    int total = settings.paced * static_cast<int>(paced.size() + awake.size());
    for (const auto* all : {&burst, &sweep, &overflow}) {
      for (const Bulk& each : *all) total += each.sent;
    }
    return total;
  }
};

// Watchdog with one watch over all mailboxes is what the targets are about: it sees mailboxes that come later. With a
// watch for each it has more queues and threads, and is shown for comparison; so is the floor, the bare system calls.
constexpr const char *kOurs = "sallyport", *kUnsynced = "unsynced", *kWatchdog = "watchdog", *kEach = "wd/each",
                     *kChokidar = "chokidar", *kBare = "bare";

bool works(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

std::vector<Contender> find_contenders(const std::string& server, const std::string& scripts) {
  const std::string bare = server.substr(0, server.rfind('/')) + "/bench_mailbox_bare";
  std::vector<Contender> all = {
      {kOurs, {server, "BASE", "STATE"}}, {kUnsynced, {server, "BASE", "STATE", "unsynced"}}, {kBare, {bare, "BASE"}}};
  if (works("/usr/bin/python3 -c 'import watchdog'")) {
    all.push_back({kWatchdog, {"/usr/bin/python3", scripts + "/peer_watchdog.py", "BASE"}});
    all.push_back({kEach, {"/usr/bin/python3", scripts + "/peer_watchdog.py", "BASE", "each"}});
  } else {
    std::fprintf(stderr, "bench mailbox: watchdog is left out: install python3-watchdog\n");
  }
  if (works("node -e 'require(\"chokidar\")'")) {
    all.push_back({kChokidar, {"node", scripts + "/peer_chokidar.js", "BASE"}});
  } else {
    std::fprintf(stderr, "bench mailbox: chokidar is left out: npm cannot fetch it here\n");
  }
  return all;
}

// In turns, so that all meet the same machine, each round beginning with another.
std::map<std::string, Scores> run_all(const Ground& ground, std::vector<Contender> contenders,
                                      const Settings& settings) {
  std::map<std::string, Scores> scores;
  for (int round = 0; round < settings.rounds; ++round) {
    for (const Contender& each : contenders) {
      std::fprintf(stderr, "bench mailbox: round %d of %d, %s\n", round + 1, settings.rounds, each.name.c_str());
      Scores& score = scores[each.name];
      const auto has = [&](const char* contest) { return settings.contests.contains(contest); };
      if (has("paced")) score.paced.push_back(run_paced(ground, each, settings.paced, 150));
      if (has("awake")) {
        const Awake awake;
        score.awake.push_back(run_paced(ground, each, settings.paced, 150));
      }
      if (has("burst")) score.burst.push_back(run_burst(ground, each, settings.burst_boxes, settings.per_box));
      if (has("sweep")) {
        score.sweep.push_back(run_sweep(ground, each, settings.sweep_boxes, settings.per_box - settings.more_per_box,
                                        settings.more_per_box));
      }
      if (has("overflow")) score.overflow.push_back(run_overflow(ground, each, settings.overflow));
    }
    std::rotate(contenders.begin(), contenders.begin() + 1, contenders.end());
  }
  return scores;
}

// ---- the table ----

struct Row {
  std::string name, unit;
  std::map<std::string, double> figures;  // by contender
  std::optional<double> ratio;            // how much better than watchdog, or what is judged
  double target = 0;
  bool more_is_better = true;

  const char* verdict() const {
    if (!ratio) return "";
    return (more_is_better ? *ratio >= target : *ratio <= target) ? "met" : "MISSED";
  }
};

template <typename Measure, typename T>
double median_over(const std::vector<T>& rounds, Measure measure) {
  std::vector<double> values;
  for (const T& round : rounds) values.push_back(measure(round));
  return median(std::move(values));
}

// Medians of each, and the median of the rounds' own ratios: of two that ran one after the other.
template <typename T, typename Measure>
Row compare(const std::map<std::string, Scores>& scores, std::string name, std::string unit,
            std::vector<T> Scores::* contest, Measure measure, bool more_is_better, double target) {
  Row row{.name = std::move(name), .unit = std::move(unit), .figures = {}, .ratio = {}, .target = target};
  for (const auto& [contender, score] : scores) {
    if (contender != kUnsynced && !(score.*contest).empty()) {
      row.figures[contender] = median_over(score.*contest, measure);
    }
  }
  if (!row.figures.contains(kOurs) || !row.figures.contains(kWatchdog)) return row;
  const std::vector<T>&ours = scores.at(kOurs).*contest, &theirs = scores.at(kWatchdog).*contest;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double ratio = measure(theirs[i]) / measure(ours[i]);
    ratios.push_back(more_is_better ? 1 / ratio : ratio);
  }
  row.ratio = median(std::move(ratios));
  return row;
}

Row durable_share(const std::map<std::string, Scores>& scores) {
  Row row{.name = "burst: durable / own non-durable", .unit = "/s", .figures = {}, .ratio = {}, .target = 0.9};
  std::vector<double> ratios;
  if (!scores.contains(kOurs) || !scores.contains(kUnsynced)) return row;
  const auto &durable = scores.at(kOurs).burst, &unsynced = scores.at(kUnsynced).burst;
  if (durable.empty()) return row;
  for (std::size_t i = 0; i < durable.size(); ++i) ratios.push_back(durable[i].per_second / unsynced[i].per_second);
  row.figures[kOurs] = median_over(durable, [](const Bulk& bulk) { return bulk.per_second; });
  row.figures[kUnsynced] = median_over(unsynced, [](const Bulk& bulk) { return bulk.per_second; });
  row.ratio = median(std::move(ratios));
  return row;
}

Row losses(const std::map<std::string, Scores>& scores, const Settings& settings) {
  Row row{.name = "lost of all that was sent", .unit = "%", .figures = {}, .ratio = {}, .target = 0};
  row.more_is_better = false;
  for (const auto& [contender, score] : scores) row.figures[contender] = 100.0 * score.lost() / score.sent(settings);
  // Ours in whole messages: nearly none is not none.
  if (scores.contains(kOurs)) {
    row.ratio = scores.at(kOurs).lost() + (scores.contains(kUnsynced) ? scores.at(kUnsynced).lost() : 0);
  }
  return row;
}

Row overflow_losses(const std::map<std::string, Scores>& scores) {
  Row row{.name = "  of it when the kernel's queue overflows", .unit = "%", .figures = {}, .ratio = {}};
  for (const auto& [contender, score] : scores) {
    if (score.overflow.empty()) continue;
    row.figures[contender] =
        median_over(score.overflow, [](const Bulk& bulk) { return 100.0 * bulk.lost / bulk.sent; });
  }
  return row;
}

Row decision_row() {
  Row row{.name = "policy decision, 500 rules, the slowest", .unit = "us", .figures = {}, .ratio = {}};
  row.target = kDecisionTargetUs;
  row.more_is_better = false;
  double slowest = 0;
  for (const DecisionCost& cost : measure_decisions()) {
    if (cost.has_many_rules) slowest = std::max(slowest, cost.explained_us);
  }
  row.figures[kOurs] = slowest;
  row.ratio = slowest;
  return row;
}

Row record_row(const std::string& directory, const Settings& settings) {
  Row row{.name = "CPU per audit record, group commit", .unit = "us", .figures = {}, .ratio = {}};
  row.target = kRecordTargetUs;
  row.more_is_better = false;
  LedgerBench ledger(directory);
  std::vector<double> costs;
  for (int i = 0; i < 5; ++i) costs.push_back(ledger.burst(settings.records).cpu * 1e6 / settings.records);
  row.ratio = row.figures[kOurs] = median(std::move(costs));
  return row;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value == 0 ? "%.0f" : value < 10 ? "%.2f" : value < 1000 ? "%.1f" : "%.0f", value);
  return text;
}

std::string figure(const Row& row, const char* contender) {
  const auto found = row.figures.find(contender);
  return found == row.figures.end() ? "" : number(found->second) + " " + row.unit;
}

void print_table(const std::vector<Row>& rows) {
  const char* format = "%-42s %11s %11s %11s %11s %11s %11s %7s  %-7s %s\n";
  std::printf(format, "", "ours", "unsynced", kBare, kWatchdog, kEach, kChokidar, "ratio", "target", "");
  for (const Row& row : rows) {
    const std::string target = row.ratio ? (row.more_is_better ? ">= " : "<= ") + number(row.target) : "";
    std::printf(format, row.name.c_str(), figure(row, kOurs).c_str(), figure(row, kUnsynced).c_str(),
                figure(row, kBare).c_str(), figure(row, kWatchdog).c_str(), figure(row, kEach).c_str(),
                figure(row, kChokidar).c_str(), row.ratio ? number(*row.ratio).c_str() : "", target.c_str(),
                row.verdict());
  }
}

void print_json(const std::vector<Row>& rows) {
  const std::string text = sallyport::wire::to_json([&](sallyport::wire::JsonWriter& json) {
    json.begin_array();
    for (const Row& row : rows) {
      json.begin_object().member("row", row.name).member("unit", row.unit).key("figures").begin_object();
      for (const auto& [contender, value] : row.figures) json.member(contender, value);
      json.end_object();
      if (row.ratio) json.member("ratio", *row.ratio).member("target", row.target).member("verdict", row.verdict());
      json.end_object();
    }
    json.end_array();
  });
  std::puts(text.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  Settings settings;
  std::set<std::string> contests;
  for (int i = 4; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) {
      settings.rounds = 1;
      settings.paced = 200;
      settings.burst_boxes = 5;
      settings.sweep_boxes = 20;
    } else if (std::strcmp(argv[i], "--json") == 0) {
      settings.is_json = true;
    } else if (std::strcmp(argv[i], "--contest") == 0 && i + 1 < argc) {
      contests.insert(argv[++i]);
    } else if (std::strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
      settings.only.insert(argv[++i]);
    } else {
      std::fprintf(stderr,
                   "bench mailbox: unknown option %s; known: --quick --json --contest paced|awake|burst|sweep|overflow "
                   "--only CONTENDER\n",
                   argv[i]);
      return 2;
    }
  }
  const bool is_whole = contests.empty() && settings.only.empty();
  if (!contests.empty()) settings.contests = contests;
  std::vector<Contender> contenders = find_contenders(argv[1], argv[2]);
  std::erase_if(contenders,
                [&](const Contender& each) { return !settings.only.empty() && !settings.only.contains(each.name); });
  std::map<std::string, Scores> scores;
  {
    const Ground ground(argv[3]);
    scores = run_all(ground, std::move(contenders), settings);
  }
  const int burst = settings.burst_boxes * settings.per_box, sweep = settings.sweep_boxes * settings.per_box;
  std::vector<Row> rows;
  rows.push_back(compare(
      scores, "drop to response, p50 at 150/s", "us", &Scores::paced, [](const Paced& it) { return it.p50_us; }, false,
      8));
  rows.push_back(compare(
      scores, "  with CPUs kept from falling asleep", "us", &Scores::awake, [](const Paced& it) { return it.p50_us; },
      false, 8));
  // Where each message comes alone, most of it is to fall asleep and to be woken; where they come together, to work.
  rows.push_back(compare(
      scores, "CPU per file with response, at 150/s", "us", &Scores::paced, [](const Paced& it) { return it.cpu_us; },
      false, 15));
  rows.push_back(
      compare(scores, "  in the burst", "us", &Scores::burst, [](const Bulk& it) { return it.cpu_us; }, false, 15));
  rows.push_back(compare(
      scores, "durable handled/s, burst of " + std::to_string(burst), "/s", &Scores::burst,
      [](const Bulk& it) { return it.per_second; }, true, 8));
  rows.push_back(durable_share(scores));
  rows.push_back(compare(
      scores, "recovery sweep of " + std::to_string(sweep), "s", &Scores::sweep,
      [](const Bulk& it) { return it.seconds; }, false, 4));
  rows.push_back(losses(scores, settings));
  rows.push_back(overflow_losses(scores));
  if (is_whole) {
    rows.push_back(decision_row());
    rows.push_back(record_row(argv[3], settings));
  }
  std::erase_if(rows, [](const Row& row) { return row.figures.empty(); });
  if (settings.is_json) {
    print_json(rows);
  } else {
    print_table(rows);
  }
  return 0;
}
