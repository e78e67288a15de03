// Our side: loop, ledger, policy and mailbox as the warden has them, with one signal whose action echoes.
//   bench_mailbox_server BASE STATE [unsynced]
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "mailbox/mailbox.h"
#include "policy/policy.h"
#include "warden/signals.h"

void register_unsynced_vfs();

using namespace sallyport;

namespace {

constexpr wire::Field kPayload[] = {{.name = "text", .type = wire::Type::string, .required = true}};

class Nobody final : public approval::Reviewer {
 public:
  Task<approval::Verdict> review(approval::Matter) override { return Task<approval::Verdict>::ready({}); }
};

Task<Result<std::string>> echo(const Permit&, const mailbox::Raised& raised) {
  return Task<Result<std::string>>::ready("{\"did\":" + raised.payload + "}");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string base = argv[1], state = argv[2];
  register_unsynced_vfs();
  const SystemClock clock;
  const Log log(STDERR_FILENO, LogFormat::text, LogLevel::warn, clock);
  ipc::Loop loop;
  auto ledger = ledger::Ledger::open({.state_dir = state, .clock = clock, .vfs = argc > 3 ? argv[3] : ""});
  if (!ledger) {
    std::fprintf(stderr, "%s\n", ledger.error().describe().c_str());
    return 1;
  }
  (*ledger)->start([&loop](std::function<void()> work) { loop.post(std::move(work)); });
  const policy::Tokens tokens(clock);
  policy::Engine engine({}, tokens);
  const warden::EngineJudge judge(engine);
  Nobody nobody;
  mailbox::Signal signal{.name = "bench", .tier = 2, .payload = kPayload, .is_idempotent = true, .action = echo};
  mailbox::Mailbox mailbox({.loop = loop,
                            .ledger = **ledger,
                            .clock = clock,
                            .log = log,
                            .judge = judge,
                            .deputy = nobody,
                            .human = nobody,
                            .on_event = [](std::string_view, const std::string&) {}},
                           {signal}, state + "/quarantine");
  for (const auto& entry : std::filesystem::directory_iterator(base)) {
    const std::string container = entry.path().filename();
    policy::ContainerPolicy policy;
    policy.signals = {"*"};
    engine.set_container(container, std::move(policy));
    if (!mailbox.add(container, entry.path())) return 1;
  }
  loop.on_signals({SIGTERM}, [&](int) { loop.stop(); });
  std::puts("ready");
  std::fflush(stdout);
  mailbox.start();
  loop.run();
  mailbox.close();
  loop.settle();
  const Status closed = (*ledger)->close();
  loop.settle();
  return closed ? 0 : 1;
}
