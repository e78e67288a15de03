// Everything that a signal's action uses, real: ledger, launcher, containers, groups, scheduler. Only time is
// the test's own.
#pragma once

#include <gtest/gtest.h>

#include <unistd.h>

#include <deque>
#include <filesystem>
#include <fstream>

#include "approval/deputy.h"
#include "approval/gate.h"
#include "handlers/method.h"
#include "ledger/verification.h"
#include "scheduler/signals.h"
#include "support/clock.h"
#include "support/daemon.h"

namespace sallyport::scheduler {

inline constexpr const char* kTestProfiles = R"(
[profile.helper]
fs.read = ["/usr", "/etc"]
fs.write = ["${workspace}"]
exec = ["/usr/**"]
agent = ["/bin/sh", "-c", "read -r line; eval \"$line\""]
env = { PATH = "/usr/bin:/bin" }
[profile.plain]
fs.read = ["/usr", "/etc"]
exec = ["/usr/**"]
[profile.small]
fs.read = ["/usr"]
fs.write = ["${workspace}"]
exec = ["/usr/bin/*"]
agent = ["/bin/sh"]
[profile.wide]
fs.read = ["/"]
exec = ["/usr/**"]
)";

class World : public ::testing::Test {
 protected:
  struct Event {
    std::string name, params;
  };

  World() {
    std::filesystem::create_directories(path("/profiles"));
    std::filesystem::create_directories(path("/desk"));
    std::ofstream(path("/profiles/test.toml")) << kTestProfiles;
  }
  ~World() override { shut_down(); }

  // As a warden does: with what the last one left.
  void start() {
    prepare();
    ASSERT_TRUE(wait(life_->scheduler.open()));
  }
  // All but the scheduler is open.
  void prepare() {
    life_ = std::make_unique<Life>(*this);
    ASSERT_TRUE(life_->groups.refresh());
    auto profiles = policy::Profiles::load(path("/profiles"));
    ASSERT_TRUE(profiles) << profiles.error().message;
    life_->profiles = std::move(*profiles);
    const auto lost = life_->registry.open();
    ASSERT_TRUE(lost) << lost.error().describe();
  }
  void SetUp() override { start(); }
  void shut_down() {
    if (!life_) return;
    life_->scheduler.close();
    life_->registry.close();
    life_->egress.close();
    life_->loop.settle();
    EXPECT_TRUE(life_->ledger->close());
    life_.reset();
  }

  std::string path(const std::string& below) const { return root_.path() + below; }

  // Runs the loop until the claim holds.
  bool until(const std::function<bool()>& claim) {
    const auto end = std::chrono::steady_clock::now() + ::sallyport::testing::kPatience;
    ipc::Loop& loop = life_->loop;
    std::function<void()> look = [&] {
      if (claim() || std::chrono::steady_clock::now() > end) return loop.stop();
      loop.after(Millis(2), look);
    };
    loop.post(look);
    loop.run();
    return claim();
  }
  template <typename T>
  T wait(Task<T> task) {
    std::optional<T> result;
    const auto start_it = [&](Task<T> work) -> Fire { result = co_await work; };
    start_it(std::move(task));
    EXPECT_TRUE(until([&] { return result.has_value(); }));
    return std::move(*result);
  }

  std::shared_ptr<containers::Container> container(const std::string& profile, std::vector<std::string> command = {},
                                                   const std::string& group = {}) {
    containers::Config config;
    config.profile = profile;
    config.command = std::move(command);
    config.workspace = path("/desk");
    config.group = group;
    auto made = wait(handlers::start_container(*life_->host, std::move(config)));
    EXPECT_TRUE(made) << made.error().describe();
    return made ? *made : nullptr;
  }

  // What the flow does once all has been decided: the answer, or "CODE: message".
  std::string raise(const std::string& signal, const containers::Container& from, const std::string& payload = {},
                    const std::string& key = "key") {
    for (const mailbox::Signal& each : signals()) {
      if (each.name != signal) continue;
      if (!payload.empty()) {
        wire::Decoder decoder;
        const auto document = decoder.parse(payload);
        EXPECT_TRUE(document);
        if (const Status good = wire::check_params(each.payload, document->root()); !good) return said(good.error());
      }
      const auto permit = life_->engine.permit_at_once({Principal::host(), 0, "signal.raise", {}});
      const mailbox::Raised raised{from.id, key, payload, key};
      const auto answer = wait(each.action(*permit, raised));
      return answer ? *answer : said(answer.error());
    }
    return "no such signal";
  }
  std::vector<mailbox::Signal> signals() {
    auto all = builtin_signals(*life_->signals);
    for (auto& each : declared_signals(*life_->signals, declared_)) all.push_back(std::move(each));
    return all;
  }
  static std::string said(const Error& error) { return std::string(to_string(error.code)) + ": " + error.message; }

  std::size_t count(const std::string& event, const std::string& part = {}) const {
    return static_cast<std::size_t>(std::count_if(events_.begin(), events_.end(), [&](const Event& each) {
      return each.name == event && each.params.find(part) != std::string::npos;
    }));
  }
  std::string last(const std::string& event) const {
    const auto found =
        std::find_if(events_.rbegin(), events_.rend(), [&](const Event& each) { return each.name == event; });
    return found == events_.rend() ? "none" : found->params;
  }
  // Lines of the exported audit log that name a method.
  std::size_t audited(const std::string& method) {
    std::size_t lines = 0;
    for (const auto& file : std::filesystem::directory_iterator(path("/audit"))) {
      std::ifstream in(file.path());
      for (std::string line; std::getline(in, line);) lines += line.find("\"" + method + "\"") != std::string::npos;
    }
    return lines;
  }

  Scheduler& scheduler() { return life_->scheduler; }
  void pass(Millis time) {
    clock_.pass(time);
    scheduler().tick();
  }

  // Actions come after all decisions; nothing here asks for one.
  struct NoJudge final : mailbox::Judge {
    mailbox::Judgement consider(const Principal&, std::string_view, wire::Value) const override { return {}; }
    Result<Permit> permit(const Principal&, std::string_view, wire::Value, const mailbox::Judgement&,
                          const mailbox::Approvals&) const override {
      return Error::make(Code::policy_denied, "nobody decides here");
    }
    std::string policy_hash() const override { return {}; }
  };

  struct Life {
    explicit Life(World& world)
        : ledger(std::move(
              *ledger::Ledger::open({.state_dir = world.root_.path(), .clock = world.clock_, .vfs = world.vfs_}))),
          sessions(loop, world.log_, {}),
          tokens(world.clock_),
          engine({}, tokens),
          registry(sessions, world.clock_,
                   {world.path("/doors"), world.path("/mailbox"), world.path("/containers"), world.path("/scans")},
                   {.on_connection = [](UniqueFd, const auto&) {},
                    .on_event = world.publisher(),
                    .on_incident = [](const containers::Incident&) {},
                    .session_of = [this](const std::string& group) { return groups.session_dir(group); },
                    .on_prepared = [](const auto&) { return ok(); },
                    .has_asked = [](const std::string&) { return false; },
                    .on_removed = [](const std::string&) {}}),
          workers(registry, sessions, {}),
          pods(sessions, world.clock_, world.path("/pods"),
               {.on_event = world.publisher(),
                .on_report = [](const pod::Record&, wire::Value) {},
                .on_found = [](const pod::Record&) {},
                .on_end = [](const std::string&, const std::optional<pod::Record>&, std::optional<int>) {},
                .net_policy = [](const pod::Record&) { return policy::NetPolicy(); }}),
          egress(loop, world.log_, {}, [](const egress::Report&) {}),
          adapters(sessions, {}, {.state_dir = world.path("/platform")}),
          groups(world.root_.path()),
          output(registry, *ledger, world.publisher()),
          scheduler(
              {.loop = loop,
               .ledger = *ledger,
               .registry = registry,
               .profiles = profiles,
               .output = output,
               .clock = world.clock_,
               .log = world.log_,
               .launch =
                   [this](containers::Config config) { return handlers::start_container(*host, std::move(config)); },
               .forget = [this](const std::string& id) { EXPECT_TRUE(registry.remove(id)); },
               .publish = world.publisher()}),
          deputy(
              sessions, world.clock_, [](const std::string&) { return std::nullopt; },
              [](const approval::CellCommand&) { return Error::make(Code::unavailable, "no cells here"); }),
          gate(*ledger, loop, world.log_, {.policy_hash = [] { return ""; }, .publish = world.publisher()}),
          mailboxes({.loop = loop,
                     .ledger = *ledger,
                     .clock = world.clock_,
                     .log = world.log_,
                     .judge = judge,
                     .deputy = deputy,
                     .human = gate,
                     .on_event = world.publisher()},
                    {}, world.path("/quarantine")) {
      ledger->start([this](std::function<void()> work) { loop.post(std::move(work)); });
      host = std::make_unique<handlers::Host>(handlers::Host{.sessions = sessions,
                                                             .engine = engine,
                                                             .tokens = tokens,
                                                             .events = hub,
                                                             .containers = registry,
                                                             .workers = workers,
                                                             .pods = pods,
                                                             .groups = groups,
                                                             .scheduler = scheduler,
                                                             .egress = egress,
                                                             .adapters = adapters,
                                                             .profiles = profiles,
                                                             .ledger = *ledger,
                                                             .mailbox = mailboxes,
                                                             .deputy = deputy,
                                                             .gate = gate,
                                                             .clock = world.clock_,
                                                             .version = {},
                                                             .config_error = {},
                                                             .is_name = {},
                                                             .reload = {},
                                                             .shut_down = {}});
      signals = std::make_unique<SignalHost>(SignalHost{
          .loop = loop,
          .registry = registry,
          .groups = groups,
          .profiles = profiles,
          .engine = engine,
          .scheduler = scheduler,
          .output = output,
          .deployments = world.deployments_,
          .clock = world.clock_,
          .log = world.log_,
          .publish = world.publisher(),
          .profile_of = [this](const containers::Config& config) { return handlers::profile_of(profiles, config); }});
    }
    ipc::Loop loop{Spinner::Mode::never};
    std::unique_ptr<ledger::Ledger> ledger;
    ipc::Sessions sessions;
    policy::Tokens tokens;
    policy::Engine engine;
    policy::Profiles profiles;
    handlers::EventHub hub;
    containers::Registry registry;
    containers::Workers workers;
    pod::Roster pods;
    egress::Link egress;
    platform::AdaptersLink adapters;
    containers::Groups groups;
    OutputRouter output;
    Scheduler scheduler;
    NoJudge judge;
    approval::Deputy deputy;
    approval::Gate gate;
    mailbox::Mailbox mailboxes;
    std::unique_ptr<handlers::Host> host;
    std::unique_ptr<SignalHost> signals;
  };
  Publish publisher() {
    return
        [this](std::string_view event, const std::string& params) { events_.push_back({std::string(event), params}); };
  }

  ::sallyport::testing::TemporaryDirectory root_;
  testing::FakeClock clock_{*calendar::parse_rfc3339("2026-01-05T00:00:30Z")};
  Log log_{STDERR_FILENO, LogFormat::text, LogLevel::error, clock_};
  std::string vfs_;  // of the ledger; before start()
  Deployments deployments_;
  std::vector<DeclaredSignal> declared_;
  std::deque<Event> events_;
  std::unique_ptr<Life> life_;
};

}  // namespace sallyport::scheduler
