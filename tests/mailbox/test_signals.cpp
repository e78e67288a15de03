#include "mailbox/test_signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

namespace sallyport::testing {
namespace {

using approval::Matter;
using approval::Verdict;
using mailbox::Raised;
using mailbox::Signal;

constexpr wire::Field kPayload[] = {{.name = "text", .type = wire::Type::string, .required = true, .most = 60'000},
                                    {.name = "fail", .type = wire::Type::boolean},
                                    {.name = "modify", .type = wire::Type::boolean},
                                    {.name = "hold", .type = wire::Type::boolean}};

std::string actions_file() {
  const char* path = std::getenv("SALLYPORT_TEST_ACTIONS");
  return path == nullptr ? "/dev/null" : path;
}

bool says(const std::string& payload, const char* flag) {
  wire::Decoder decoder;
  const auto document = decoder.parse(payload);
  return document && document->root().get(flag).as_bool().value_or(false);
}

Task<Result<std::string>> act(const std::string& name, const Raised& raised) {
  const UniqueFd file{::open(actions_file().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)};
  const std::string line = name + " " + raised.key + "\n";
  if (::write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
  if (says(raised.payload, "fail")) {
    return Task<Result<std::string>>::ready(Error::make(Code::io_error, "the test wants it to fail"));
  }
  const std::string payload = raised.payload.empty() ? "null" : raised.payload;
  return Task<Result<std::string>>::ready("{\"did\":" + payload + "}");
}

class TestReviewer final : public approval::Reviewer {
 public:
  explicit TestReviewer(bool is_human) : is_human_(is_human) {}
  ~TestReviewer() override {
    for (const auto& held : held_) held->resolve({});
  }
  Task<Verdict> review(Matter matter) override {
    Verdict verdict;
    verdict.kind = Verdict::Kind::approved;
    verdict.by = is_human_ ? "test/human" : "test/deputy";
    if (!is_human_ && says(matter.payload, "modify")) {
      verdict.kind = Verdict::Kind::modified;
      verdict.payload = R"({"text": "modified"})";
    }
    if (is_human_ && says(matter.payload, "hold") && ::access((actions_file() + ".approve").c_str(), F_OK) != 0) {
      const auto held = std::make_shared<ipc::OneShot<Verdict>>();
      held_.push_back(held);
      co_return co_await *held;
    }
    co_return verdict;
  }

 private:
  bool is_human_;
  std::vector<std::shared_ptr<ipc::OneShot<Verdict>>> held_;
};

Signal signal(std::string name, int tier, bool is_idempotent) {
  Signal made;
  made.tier = tier;
  if (tier == 2) made.payload = kPayload;
  made.is_idempotent = is_idempotent;
  made.action = [name](const Permit&, const Raised& raised) { return act(name, raised); };
  made.name = std::move(name);
  return made;
}

}  // namespace

std::int64_t ShiftedClock::unix_millis() const {
  const UniqueFd file{::open((actions_file() + ".clock").c_str(), O_RDONLY | O_CLOEXEC)};
  char text[32] = "";
  if (file && ::read(file.get(), text, sizeof text - 1) < 0) std::abort();
  return system_.unix_millis() + std::atoll(text);
}

void add_test_signals(warden::Options& options) {
  options.more_signals = {signal("test_note", 1, false),  signal("test_once", 2, false),
                          signal("test_again", 2, true),  signal("test_deputy", 2, false),
                          signal("test_human", 2, false), signal("test_both", 2, false)};
  options.deputy = std::make_shared<TestReviewer>(false);
  if (std::getenv("SALLYPORT_TEST_GATE") == nullptr) options.human = std::make_shared<TestReviewer>(true);
}

}  // namespace sallyport::testing
