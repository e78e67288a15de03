#include "cli/run_adoption.h"

#include <cstdio>

#include "cli/warden_link.h"
#include "containers/registry.h"
#include "egress/limits.h"
#include "os/peer.h"

namespace sallyport::cli {
namespace {

constexpr std::size_t kAtOnce = 256;  // reports in one call; the warden takes four times as many
constexpr Millis kLastWords{5000};    // for a warden that is slow to write the last ones down
// A sandbox does without a warden that stands still; its disk may be slow.
CallOptions patience() { return {.deadline = Millis(8000), .token = {}}; }
constexpr Millis kLook{100};

// What does not parse may have been a restriction.
policy::NetPolicy read_or_deny(wire::Value value) {
  if (auto policy = egress::read_policy(value)) return std::move(*policy);
  policy::NetPolicy nothing;
  nothing.is_faulty = true;
  return nothing;
}

// Of a command line: it is only shown, and may be longer than a message.
void write_start(wire::JsonWriter& json, const std::vector<std::string>& command) {
  constexpr std::size_t kShown = 4096;
  json.begin_array();
  std::size_t bytes = 0;
  for (const std::string& word : command) {
    if (bytes > kShown) break;
    const std::size_t most = kShown - std::min(bytes, kShown);
    json.value(word.size() > most ? word.substr(0, most) + "..." : word);
    bytes += word.size() + 1;
  }
  json.end_array();
}

}  // namespace

Adoption::Adoption(const os::Paths* paths, const std::string& profile, sandbox::Spec& spec) {
  if (paths == nullptr) return;
  auto client = connect_warden(*paths);
  if (!client) {
    // That none runs is no news; one that cannot be trusted is.
    if (client.error().code != Code::unavailable) {
      std::fprintf(stderr, "sallyport: the warden gives no door: %s\n", client.error().message.c_str());
    }
    return;
  }
  (*client)->on_event([this](const wire::Message& event) {
    if (event.method == "container.net") policy_ = read_or_deny(event.params.get("policy"));
  });
  const auto answer = (*client)->call("container.adopt", wire::to_json([&](wire::JsonWriter& json) {
                                        json.begin_object().member("template", profile).key("config");
                                        json.begin_object();
                                        if (!spec.workspace.empty()) json.member("workspace", spec.workspace);
                                        write_start(json.key("command"), spec.command);
                                        json.end_object().end_object();
                                      }),
                                      patience());
  if (!answer) {
    std::fprintf(stderr, "sallyport: the warden gives no door: %s\n", answer.error().message.c_str());
    return;
  }
  containers::Container place;
  place.id = answer->value().get("container").as_string().value_or("");
  place.door_dir = answer->value().get("door").as_string().value_or("");
  place.mailbox_dir = answer->value().get("mailbox").as_string().value_or("");
  place.session_dir = answer->value().get("session").as_string().value_or("");
  containers::Registry::add_door(place, spec);
  id_ = spec.name = place.id;
  client_ = std::move(*client);
}

void Adoption::started(const sandbox::Running& running) {
  if (!client_) return;
  const auto place = os::namespace_id(running.pid_namespace());
  if (!place) {
    std::fputs("sallyport: the warden cannot be told where this runs, and gives it no door\n", stderr);
    return;
  }
  tell([&](wire::JsonWriter& json) {
    json.member("pid", running.pid()).key("pid_namespace").begin_object();
    json.member("device", place->device).member("inode", place->inode).end_object();
  });
}

void Adoption::on_readable() {
  if (!client_->dispatch(Millis(0))) lose(0);
}

// Also what was on its way and is waiting: it is in nobody's audit.
void Adoption::lose(std::uint64_t reports) {
  is_lost_ = true;
  unrecorded_ += reports + std::exchange(in_flight_, 0);
  for (const egress::Report& report : std::exchange(waiting_, {})) unrecorded_ += report.count;
  while (!beyond_.is_empty()) unrecorded_ += beyond_.take().count;
}

void Adoption::report(const egress::Report& report) {
  if (!client_) return;
  if (is_lost_) return lose(report.count);
  if (waiting_.size() < egress::kMaxReports && beyond_.is_empty()) {
    waiting_.push_back(report);
  } else {
    beyond_.add(report);
  }
  send_reports();
}

void Adoption::send_reports() {
  while (waiting_.empty() && !beyond_.is_empty()) waiting_.push_back(beyond_.take());
  // One call at a time: what comes meanwhile goes with the next, and a warden that stands still stops nobody.
  if (is_lost_ || in_flight_ != 0 || waiting_.empty()) return;
  const std::string params = wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object().member("container", id_).key("net").begin_array();
    for (std::size_t i = 0; i < kAtOnce && !waiting_.empty(); ++i) {
      egress::write_report(json, waiting_.front());
      in_flight_ += waiting_.front().count;
      waiting_.pop_front();
    }
    json.end_array().end_object();
  });
  const auto sent = client_->start("container.adopt", params, [this](const Result<Answer>& answer) {
    if (!answer && answer.error().code == Code::unavailable) return lose(0);
    const std::uint64_t count = std::exchange(in_flight_, 0);
    if (!answer) unrecorded_ += count;
    send_reports();
  });
  if (!sent) lose(0);
}

void Adoption::finish() {
  if (!client_) return;
  const SteadyTime until = std::chrono::steady_clock::now() + kLastWords;
  while (in_flight_ != 0 && std::chrono::steady_clock::now() < until) {
    if (!client_->dispatch(kLook)) lose(0);
  }
  if (in_flight_ != 0) lose(0);
}

void Adoption::refused(const std::function<void(wire::JsonWriter&)>& violations) {
  tell([&](wire::JsonWriter& json) { violations(json.key("violations")); });
}

void Adoption::found(const std::vector<std::string>& findings) {
  tell([&](wire::JsonWriter& json) {
    json.key("findings").begin_array();
    for (const std::string& finding : findings) json.value(finding);
    json.end_array();
  });
}

void Adoption::ended(int wait_status) {
  tell([&](wire::JsonWriter& json) { json.member("wait_status", wait_status); });
}

void Adoption::tell(const std::function<void(wire::JsonWriter&)>& what) {
  if (!client_ || is_lost_) return;
  // A warden that is gone meanwhile takes the door along, and nothing else.
  const auto told = client_->call("container.adopt", wire::to_json([&](wire::JsonWriter& json) {
                                    json.begin_object().member("container", id_);
                                    what(json);
                                    json.end_object();
                                  }),
                                  patience());
  if (!told && told.error().code == Code::timeout) lose(0);  // waited for once, not for each thing that is to be said
  if (!told && told.error().code != Code::unavailable) {
    std::fprintf(stderr, "sallyport: the warden does not take this run: %s\n", told.error().message.c_str());
  }
}

}  // namespace sallyport::cli
