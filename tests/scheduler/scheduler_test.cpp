// The scheduler with real containers and a real ledger; time is the test's own.
#include "scheduler/scheduler.h"

#include <sqlite3.h>

#include <future>

#include "ledger/faulty_vfs.h"
#include "scheduler/world.h"

namespace sallyport::scheduler {
namespace {

constexpr Millis kMinute{60'000}, kHour{3'600'000};

class SchedulerTest : public World {
 protected:
  std::string task(const std::string& prompt, const std::string& schedule, const std::string& key = "key") {
    return raise("schedule_task", *sender(), wire::to_json([&](wire::JsonWriter& json) {
                   json.begin_object().member("prompt", prompt).member("schedule", schedule).end_object();
                 }),
                 key);
  }
  std::shared_ptr<containers::Container> sender() {
    if (!sender_) sender_ = container("helper");
    return sender_;
  }
  bool finishes(std::size_t runs) {
    return until([&] { return count("schedule.finished") >= runs; });
  }
  std::shared_ptr<containers::Container> sender_;
};

TEST_F(SchedulerTest, RunsAPromptAtItsTimeInAFreshContainerAndRoutesItsOutput) {
  const std::string answer =
      task(R"(echo "{\"type\":\"message\",\"text\":\"from $SALLYPORT_CONTAINER\"}"; echo noise)", "*/5 * * * *");
  EXPECT_NE(answer.find(R"("next_run":"2026-01-05T00:05:00Z")"), std::string::npos) << answer;
  pass(kMinute);
  EXPECT_EQ(count("schedule.started"), 0U);
  pass(4 * kMinute);
  ASSERT_TRUE(finishes(1));
  const std::string finished = last("schedule.finished");
  EXPECT_NE(finished.find(R"("outcome":"done")"), std::string::npos) << finished;
  EXPECT_NE(finished.find(R"("exit_code":0)"), std::string::npos) << finished;
  EXPECT_NE(finished.find(R"("messages":1,"progress":0,"malformed":1,"lost_bytes":0)"), std::string::npos) << finished;
  EXPECT_EQ(finished.find("late_ms"), std::string::npos) << finished;
  EXPECT_NE(finished.find(R"("next_run":"2026-01-05T00:10:00Z")"), std::string::npos) << finished;
  ASSERT_EQ(count("container.message"), 1U);
  const std::string message = last("container.message");
  EXPECT_NE(message.find(R"("text":"from helper-)"), std::string::npos) << message;
  EXPECT_EQ(message.find(sender()->id), std::string::npos) << "it must be a container of its own";
  pass(5 * kMinute);
  EXPECT_TRUE(finishes(2));
  EXPECT_EQ(scheduler().all()[0]->runs, 2);
}

TEST_F(SchedulerTest, RunsOnceAtATime) {
  task("true", "2026-01-05T01:00:00+00:30");
  pass(kHour);
  ASSERT_TRUE(finishes(1));
  pass(24 * kHour - kMinute);
  ASSERT_EQ(scheduler().all().size(), 1U);
  EXPECT_EQ(scheduler().all()[0]->next_ms, 0);
  pass(48 * kHour);
  EXPECT_TRUE(until([&] { return scheduler().all().empty(); }));
  EXPECT_EQ(count("schedule.started"), 1U);
}

TEST_F(SchedulerTest, ATimeThatPassedDuringTheReviewRunsAtOnceAndSaysHowLate) {
  task("true", "2026-01-04T23:00:30Z");
  ASSERT_TRUE(finishes(1));
  EXPECT_NE(last("schedule.finished").find(R"("late_ms":3600000)"), std::string::npos) << last("schedule.finished");
}

TEST_F(SchedulerTest, SaysHowARunFailed) {
  task("exit 3", "@hourly");
  pass(kHour);
  ASSERT_TRUE(finishes(1));
  EXPECT_NE(last("schedule.finished").find(R"("outcome":"failed")"), std::string::npos);
  EXPECT_NE(last("schedule.finished").find(R"("exit_code":3)"), std::string::npos);
}

TEST_F(SchedulerTest, StopsARunThatTakesTooLong) {
  Limits limits;
  limits.max_run = Millis(50);
  scheduler().set_limits(limits);
  task("exec sleep 1000", "@hourly");
  pass(kHour);
  ASSERT_TRUE(finishes(1));
  EXPECT_NE(last("schedule.finished").find(R"("outcome":"timeout")"), std::string::npos);
}

TEST_F(SchedulerTest, RefusesWhatCannotRun) {
  const auto plain = container("plain");
  const std::string payload = R"({"prompt":"x","schedule":"@daily"})";
  EXPECT_EQ(raise("schedule_task", *plain, payload),
            "CONFLICT: profile 'plain' has no agent command, so nothing could run a prompt");
  EXPECT_EQ(task("x", "2026-01-04T00:00:30Z"), "INVALID_PARAMS: the schedule lies in the past");
  EXPECT_EQ(task("x", "0 0 30 2 *"), "INVALID_PARAMS: the schedule names a day that never comes");
  EXPECT_EQ(task(std::string(kMaxPromptBytes + 1, 'x'), "@daily").substr(0, 14), "INVALID_PARAMS");
  EXPECT_EQ(
      raise("schedule_task", *sender(), R"({"prompt":"x","schedule":"@daily","container":"other"})").substr(0, 14),
      "INVALID_PARAMS");
  EXPECT_EQ(scheduler().all().size(), 0U);
}

TEST_F(SchedulerTest, TheSameKeyMakesNoSecondTask) {
  const std::string first = task("true", "2026-01-05T01:00:00Z", "one");
  EXPECT_EQ(task("true", "2026-01-05T01:00:00Z", "one"), first);
  pass(kHour);
  ASSERT_TRUE(finishes(1));
  // Even after it ran, when its time lies in the past.
  EXPECT_EQ(task("true", "2026-01-05T01:00:00Z", "one").substr(0, 28), first.substr(0, 28));
  EXPECT_EQ(scheduler().all().size(), 1U);
}

TEST_F(SchedulerTest, AttackTooManyTasks) {
  Limits limits;
  limits.max_tasks_per_owner = 2;
  limits.max_tasks = 3;
  scheduler().set_limits(limits);
  EXPECT_EQ(task("x", "@daily", "1")[0], '{');
  EXPECT_EQ(task("x", "@daily", "2")[0], '{');
  EXPECT_EQ(task("x", "@daily", "3"), "QUOTA_EXCEEDED: too many tasks are scheduled");
  const auto other = container("helper");
  EXPECT_EQ(raise("schedule_task", *other, R"({"prompt":"x","schedule":"@daily"})", "4")[0], '{');
  EXPECT_EQ(raise("schedule_task", *other, R"({"prompt":"x","schedule":"@daily"})", "5").substr(0, 14),
            "QUOTA_EXCEEDED");
}

TEST_F(SchedulerTest, SkipsWhatIsDueWhileARunIsStillGoing) {
  task("while ! test -e go; do sleep 0.02; done", "* * * * *");
  pass(kMinute);
  ASSERT_TRUE(until([&] { return count("schedule.started") == 1; }));
  pass(kMinute);
  ASSERT_TRUE(until([&] { return count("schedule.skipped") == 1; }));
  pass(kMinute);
  ASSERT_TRUE(until([&] { return count("schedule.skipped") == 2; }));
  EXPECT_EQ(count("schedule.started"), 1U);
  std::ofstream(path("/desk/go")) << "x";
  ASSERT_TRUE(finishes(1));
  EXPECT_EQ(scheduler().all()[0]->skipped, 2);
  EXPECT_EQ(audited("schedule.skipped"), 2U);
}

TEST_F(SchedulerTest, RunsSoManyAtOnceAndTheOthersLater) {
  Limits limits;
  limits.max_running = 2;
  scheduler().set_limits(limits);
  for (int i = 0; i < 5; ++i) {
    task("while ! test -e go; do sleep 0.02; done", "2026-01-05T00:10:0" + std::to_string(i) + "Z", std::to_string(i));
  }
  pass(kHour);
  ASSERT_TRUE(until([&] { return count("schedule.started") == 2; }));
  scheduler().tick();
  EXPECT_EQ(count("schedule.started"), 2U);
  std::ofstream(path("/desk/go")) << "x";
  EXPECT_TRUE(finishes(5));
}

TEST_F(SchedulerTest, AfterADowntimeItRunsOnceLateAndSaysSo) {
  task("true", "*/10 * * * *");
  sender_.reset();
  shut_down();
  clock_.pass(5 * kHour + 3 * kMinute);
  start();
  ASSERT_TRUE(finishes(1));
  // Due at 00:10:00, run at 05:03:30.
  EXPECT_NE(last("schedule.finished").find(R"("late_ms":17610000)"), std::string::npos) << last("schedule.finished");
  EXPECT_NE(last("schedule.finished").find(R"("next_run":"2026-01-05T05:10:00Z")"), std::string::npos);
  scheduler().tick();
  EXPECT_EQ(count("schedule.started"), 1U) << "no storm";
}

TEST_F(SchedulerTest, ARunThatTheEndOfTheWardenCutShortIsLostAndNotRepeated) {
  task("exec sleep 1000", "2026-01-05T00:10:00Z");
  pass(kHour);
  ASSERT_TRUE(until([&] { return scheduler().all()[0]->started_ms != 0 && life_->registry.all().size() == 2; }));
  sender_.reset();
  shut_down();
  start();
  ASSERT_EQ(scheduler().all().size(), 1U);
  EXPECT_EQ(scheduler().all()[0]->last_outcome, "lost");
  EXPECT_EQ(scheduler().all()[0]->started_ms, 0);
  scheduler().tick();
  EXPECT_EQ(count("schedule.started"), 1U);
}

class SchedulerDisk : public SchedulerTest {
 protected:
  SchedulerDisk() { vfs_ = ledger::kFaultyVfs; }
  ~SchedulerDisk() override { faults_.on_sync = 0; }
  // A disk that fails from before a run's end until the ledger was refused twice.
  void fail_at_the_end_of(const std::string& agent) {
    task("until test -e go; do sleep 0.01; done; " + agent, "2026-01-05T00:10:00Z");
    pass(kHour);
    ASSERT_TRUE(until([&] { return scheduler().all()[0]->started_ms != 0 && life_->registry.all().size() == 2; }));
    faults_.on_sync = SQLITE_IOERR_FSYNC;
    std::ofstream(path("/desk/go")) << "x";
    ASSERT_TRUE(until([&] { return life_->ledger->health().failures >= 2; }));
    EXPECT_EQ(count("schedule.finished"), 0U) << "nobody is told what is not on the disk";
    faults_.on_sync = 0;
    ASSERT_TRUE(finishes(1));
  }
  void expect_done_after_a_restart() {
    sender_.reset();
    shut_down();
    EXPECT_EQ(audited("schedule.finished"), 1U);
    start();
    ASSERT_EQ(scheduler().all().size(), 1U);
    EXPECT_EQ(scheduler().all()[0]->last_outcome, "done");
  }
  // A new warden with something to write down about a run that the last one's end cut short.
  void start_without_room() {
    task("exec sleep 1000", "2026-01-05T00:10:00Z", "lost");
    pass(kHour);
    ASSERT_TRUE(until([&] { return count("schedule.started") == 1 && life_->registry.all().size() == 2; }));
    sender_.reset();
    shut_down();
    prepare();
    faults_.on_sync = SQLITE_IOERR_FSYNC;
    open_scheduler();
    ASSERT_TRUE(until([&] { return life_->ledger->health().failures >= 2; }));
  }
  Fire open_scheduler() { opened_ = co_await scheduler().open(); }
  ledger::Faults& faults_ = ledger::faulty_vfs();
  std::optional<Status> opened_;
};

TEST_F(SchedulerDisk, AnOutcomeThatFindsNoRoomIsRecordedWhenThereIs) {
  fail_at_the_end_of("true");
  expect_done_after_a_restart();
}

TEST_F(SchedulerDisk, OutputThatFindsNoRoomIsToldWhenThereIs) {
  fail_at_the_end_of(R"(echo '{"type":"message","text":"late"}')");
  EXPECT_EQ(count("container.message", "late"), 1U);
  expect_done_after_a_restart();
}

TEST_F(SchedulerDisk, AttackOneTaskTooManyAgainAndAgainHoldsUpNoCommits) {
  Limits limits;
  limits.max_tasks = 1;
  scheduler().set_limits(limits);
  task("x", "@daily", "1");
  // Whoever asks the ledger now waits.
  std::promise<void> end;
  const auto ended = end.get_future().share();
  life_->ledger->read({.work = [ended](ledger::Database&) { ended.wait_for(std::chrono::seconds(2)); }, .done = {}});
  const auto before = std::chrono::steady_clock::now();
  EXPECT_EQ(task("x", "@daily", "2"), "QUOTA_EXCEEDED: too many tasks are scheduled");
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(1));
  end.set_value();
}

TEST_F(SchedulerDisk, WhatWasScheduledRunsThoughTheStartFoundNoRoom) {
  task("true", "2026-01-05T02:00:00Z", "before");
  start_without_room();
  faults_.on_sync = 0;
  // Taken before those of the last warden are known.
  EXPECT_EQ(task("true", "2026-01-05T02:00:00Z", "meanwhile")[0], '{');
  ASSERT_TRUE(until([&] { return opened_.has_value(); }));
  EXPECT_TRUE(*opened_);
  ASSERT_EQ(scheduler().all().size(), 3U);
  pass(kHour);
  EXPECT_TRUE(finishes(2));
}

TEST_F(SchedulerDisk, AStartThatFindsNoRoomEndsWithTheWarden) {
  start_without_room();
  scheduler().close();
  EXPECT_TRUE(until([&] { return opened_.has_value(); }));
  EXPECT_FALSE(*opened_);
  faults_.on_sync = 0;
}

TEST_F(SchedulerTest, AClockSetForwardRunsOnceAndOneSetBackFindsTheNextTimeAgain) {
  task("true", "@hourly");
  clock_.wall_ms += 10LL * 365 * 24 * 3'600'000;
  scheduler().tick();
  ASSERT_TRUE(finishes(1));
  EXPECT_GT(scheduler().all()[0]->next_ms, *calendar::parse_rfc3339("2035-01-01T00:00:00Z"));
  clock_.wall_ms -= 10LL * 365 * 24 * 3'600'000;
  scheduler().tick();
  EXPECT_EQ(calendar::format_rfc3339(scheduler().all()[0]->next_ms), "2026-01-05T01:00:00Z");
  // A small step back does not run the same minute again.
  pass(kHour);
  ASSERT_TRUE(finishes(2));
  clock_.wall_ms -= 120'000;
  scheduler().tick();
  pass(2 * kMinute);
  EXPECT_EQ(calendar::format_rfc3339(scheduler().all()[0]->next_ms), "2026-01-05T02:00:00Z");
  EXPECT_EQ(count("schedule.started"), 2U);
}

TEST_F(SchedulerTest, AClockSetBackALittleRunsNothingTwiceAfterARestartOrInAnotherZone) {
  task("true", "@hourly");
  pass(kHour);
  ASSERT_TRUE(finishes(1));
  clock_.wall_ms -= (10 * kMinute).count();
  Limits limits;
  limits.zone = *calendar::Zone::load("Europe/Berlin");
  scheduler().set_limits(limits);
  EXPECT_EQ(calendar::format_rfc3339(scheduler().all()[0]->next_ms), "2026-01-05T02:00:00Z");
  sender_.reset();
  shut_down();
  start();
  EXPECT_EQ(calendar::format_rfc3339(scheduler().all()[0]->next_ms), "2026-01-05T02:00:00Z");
}

TEST_F(SchedulerTest, AClockSetBackALittleWhileItRanRunsNothingTwice) {
  task("until test -e go; do sleep 0.01; done", "@hourly");
  pass(kHour);
  ASSERT_TRUE(until([&] { return scheduler().all()[0]->started_ms != 0 && life_->registry.all().size() == 2; }));
  clock_.wall_ms -= (10 * kMinute).count();
  std::ofstream(path("/desk/go")) << "x";
  ASSERT_TRUE(finishes(1));
  sender_.reset();
  shut_down();
  start();
  EXPECT_EQ(calendar::format_rfc3339(scheduler().all()[0]->next_ms), "2026-01-05T02:00:00Z");
}

TEST_F(SchedulerTest, AClockSetBackALittleDoesNotRepeatALostRun) {
  task("exec sleep 1000", "@hourly");
  pass(kHour);
  ASSERT_TRUE(until([&] { return scheduler().all()[0]->started_ms != 0 && life_->registry.all().size() == 2; }));
  clock_.wall_ms -= (10 * kMinute).count();
  sender_.reset();
  shut_down();
  start();
  EXPECT_EQ(scheduler().all()[0]->last_outcome, "lost");
  EXPECT_EQ(calendar::format_rfc3339(scheduler().all()[0]->next_ms), "2026-01-05T02:00:00Z");
}

TEST_F(SchedulerTest, RemovingStopsARunAndForgetsTheTask) {
  task("exec sleep 1000", "* * * * *");
  pass(kMinute);
  ASSERT_TRUE(until([&] { return life_->registry.all().size() == 2; }));
  const std::string id = scheduler().all()[0]->id;
  EXPECT_TRUE(wait(scheduler().remove(id, "host")));
  EXPECT_TRUE(finishes(1));
  EXPECT_EQ(scheduler().all().size(), 0U);
  EXPECT_EQ(wait(scheduler().remove(id, "host")).error().code, Code::not_found);
  sender_.reset();
  shut_down();
  start();
  EXPECT_EQ(scheduler().all().size(), 0U);
}

TEST_F(SchedulerTest, ANarrowedSenderSchedulesNothingWider) {
  containers::Config config;
  config.profile = "helper";
  config.workspace = path("/desk");
  config.overrides = R"({"read_only":true})";
  auto narrow = wait(handlers::start_container(*life_->host, config));
  ASSERT_TRUE(narrow);
  sender_ = *narrow;
  task("echo x > written", "* * * * *");
  pass(kMinute);
  ASSERT_TRUE(finishes(1));
  EXPECT_NE(last("schedule.finished").find(R"("outcome":"failed")"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path("/desk/written")));
}

TEST_F(SchedulerTest, APeriodicAgentHasANamePerOwnerAndNeedsACronExpression) {
  const auto agent = [&](const char* name, const char* schedule, const char* key) {
    return raise("create_periodic_agent", *sender(),
                 std::string(R"({"name":")") + name + R"(","schedule":")" + schedule + R"(","instructions":"true"})",
                 key);
  };
  EXPECT_EQ(agent("reporter", "@daily", "1")[0], '{');
  EXPECT_EQ(agent("reporter", "@daily", "1")[0], '{');
  EXPECT_EQ(agent("reporter", "@hourly", "2"), "CONFLICT: a periodic agent of this name is there already");
  EXPECT_EQ(agent("other", "2026-02-01T00:00:00Z", "3"),
            "INVALID_PARAMS: a periodic agent needs a cron expression, not one time");
  EXPECT_EQ(agent("../x", "@daily", "4").substr(0, 14), "INVALID_PARAMS");
  pass(24 * kHour);
  ASSERT_TRUE(finishes(1));
  EXPECT_NE(last("schedule.finished").find(R"("name":"reporter")"), std::string::npos);
}

TEST_F(SchedulerTest, EveryChangeIsInAChainThatVerifies) {
  task("true", "@hourly");
  pass(kHour);
  ASSERT_TRUE(finishes(1));
  EXPECT_TRUE(wait(scheduler().remove(scheduler().all()[0]->id, "host")));
  sender_.reset();
  shut_down();
  for (const char* method : {"schedule.add", "schedule.run", "schedule.finished", "schedule.remove"}) {
    EXPECT_EQ(audited(method), 1U) << method;
  }
  const auto report = ledger::verify_state(root_.path(), {}, {});
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->findings.empty());
}

}  // namespace
}  // namespace sallyport::scheduler
