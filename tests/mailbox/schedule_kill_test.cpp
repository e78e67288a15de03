// kill -9 at every edge of a scheduled run: after a restart it has exactly one known outcome, it was begun at most
// once, and the audit chain verifies (finish() looks).
#include <csignal>
#include <ctime>
#include <fstream>

#include "mailbox/mail.h"

namespace sallyport::testing {
namespace {

struct Edge {
  const char* fault;
  const char* outcome;  // of the run, after the restart
  int most_runs;        // how often the agent may have been started, and must have been if it is done
};

constexpr Edge kEdges[] = {
    {"task_added", "done", 1},   {"run_due", "done", 1},  {"run_begun", "lost", 0},
    {"run_launched", "lost", 1}, {"run_over", "lost", 1}, {"run_recorded", "done", 1},
};

class ScheduleKill : public Mail, public ::testing::WithParamInterface<Edge> {
 protected:
  int runs() {
    std::ifstream file(daemon().root() + "/workspace/runs");
    int lines = 0;
    for (std::string line; std::getline(file, line);) ++lines;
    return lines;
  }
  // The tasks that there are: "OUTCOME " of each.
  std::string tasks() {
    Client client = connect();
    const auto answer = client.call("schedule.list");
    if (!answer || answer->error) return "no answer";
    std::string all;
    for (const wire::Value task : answer->result.get("tasks").items()) {
      all += std::string(task.get("last_outcome").as_string().value_or("none")) + " ";
    }
    return all;
  }
  std::size_t finished() {
    Client client = connect();
    const auto answer = client.call("audit.query", R"({"method":"schedule.finished"})");
    return answer && !answer->error ? answer->result.get("records").size() : 99;
  }
};

std::string soon() {
  const std::time_t at = std::time(nullptr) + 1;
  char text[32];
  std::tm when{};
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", ::gmtime_r(&at, &when));
  return text;
}

TEST_P(ScheduleKill, LeavesExactlyOneKnownOutcome) {
  const Edge& edge = GetParam();
  start(edge.fault);
  container_ = create("planner", "planner");
  drop(request("schedule_task", id_of(1), R"({"prompt":"x","schedule":")" + soon() + "\"}"));
  ASSERT_EQ(daemon().wait(), -SIGKILL);
  restart();
  const std::string expected = std::string(edge.outcome) + " ";
  EXPECT_TRUE(eventually([&] { return tasks() == expected; })) << tasks();
  EXPECT_EQ(outcome(id_of(1)), "OK") << "whoever asked for it is told, once";
  EXPECT_LE(runs(), edge.most_runs);
  if (expected == "done ") {
    EXPECT_EQ(runs(), 1);
  }
  // And it stays so.
  daemon().kill_now();
  restart();
  EXPECT_TRUE(eventually([&] { return tasks() == expected; })) << tasks();
  EXPECT_EQ(finished(), 1U);
  EXPECT_LE(runs(), edge.most_runs);
}

INSTANTIATE_TEST_SUITE_P(Edge, ScheduleKill, ::testing::ValuesIn(kEdges),
                         [](const ::testing::TestParamInfo<Edge>& edge) { return std::string(edge.param.fault); });

}  // namespace
}  // namespace sallyport::testing
