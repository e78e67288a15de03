#include "pod/startup.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "egress/protocol.h"
#include "os/files.h"
#include "os/memory_file.h"
#include "os/paths.h"
#include "os/spawn.h"
#include "sandbox/launcher_protocol.h"
#include "wire/wire.h"

namespace sallyport::pod {
namespace {

Error garbled() { return Error::make(Code::protocol_error, "what the pod was handed cannot be read"); }

}  // namespace

// A frame of JSON, then the specification as the launcher's protocol has it.
Result<Bytes> encode(const Startup& startup) {
  Bytes out;
  TRY(wire::append_frame(out, as_bytes(wire::to_json([&](wire::JsonWriter& json) {
                           json.begin_object().member("name", startup.name).member("pods_dir", startup.pods_dir);
                           json.member("token", to_hex(startup.token)).member("profile", startup.profile);
                           json.member("tcp", startup.with_tcp).member("ring_bytes", startup.ring_bytes);
                           json.member("keep_ms", startup.keep.count()).member("container", startup.container);
                           json.member("hosts_file", startup.hosts_file);
                           if (startup.net) egress::write_policy(json.key("net"), *startup.net);
                           write_size(json, startup.size);
                           json.end_object();
                         }))));
  sandbox::LaunchRequest request;
  request.spec = startup.spec;
  TRY(const Bytes packet, sandbox::encode(sandbox::ToLauncher(std::move(request))));
  out.append(packet.view());
  return out;
}

Result<Startup> decode_startup(ByteView bytes) {
  wire::FrameReader reader;
  reader.feed(bytes);
  TRY(const auto frame, reader.next());
  if (!frame) return garbled();
  wire::Decoder decoder;
  TRY(const auto document, decoder.parse(*frame));
  const wire::Value root = document.root();
  Startup startup;
  startup.name = root.get("name").as_string().value_or("");
  startup.pods_dir = root.get("pods_dir").as_string().value_or("");
  startup.profile = root.get("profile").as_string().value_or("");
  startup.container = root.get("container").as_string().value_or("");
  startup.hosts_file = root.get("hosts_file").as_string().value_or("");
  if (const wire::Value net = root.get("net")) {
    TRY(startup.net, egress::read_policy(net));
  }
  startup.with_tcp = root.get("tcp").as_bool().value_or(false);
  startup.ring_bytes = root.get("ring_bytes").as_uint().value_or(0);
  startup.keep = Millis(root.get("keep_ms").as_int().value_or(0));
  const auto size = read_size(root.get("size"));
  const auto token = from_hex(root.get("token").as_string().value_or(""));
  if (!check_name(startup.name) || !startup.pods_dir.starts_with('/') || !size || !token ||
      token->size() != startup.token.size() || startup.ring_bytes < kMinRingBytes ||
      startup.ring_bytes > kMaxRingBytes) {
    return garbled();
  }
  startup.size = *size;
  std::copy(token->begin(), token->end(), startup.token.begin());
  TRY(auto request, sandbox::decode_request(bytes.subspan(wire::kHeaderBytes + frame->size())));
  auto* launch = std::get_if<sandbox::LaunchRequest>(&request);
  if (launch == nullptr || launch->spec.command.empty()) return garbled();
  startup.spec = std::move(launch->spec);
  if (startup.spec.has_proxy != startup.net.has_value()) return garbled();
  return startup;
}

Result<std::optional<UniqueFd>> claim(const Startup& startup) {
  const Place place(startup.pods_dir, startup.name);
  TRY(const UniqueFd directory, os::open_private_directory(place.path()));
  auto lock = place.lock();
  if (!lock && lock.error().code != Code::conflict && lock.error().code != Code::not_found) return lock.error();
  if (!lock) return std::optional<UniqueFd>();
  const auto left = place.read();
  if (!left && left.error().code == Code::io_error) return left.error();
  if (left || left.error().code != Code::not_found) {
    return taken(startup.name, left && left->wait_status ? Life::collectable : Life::lost);
  }
  return std::optional<UniqueFd>(std::move(*lock));
}

Error taken(const std::string& name, Life life) {
  const std::string pod = "a pod named '" + name + "' ", wait = "; run: sallyport pod wait " + name;
  switch (life) {
    case Life::exited:
    case Life::collectable:
      return Error::make(Code::conflict, pod + "has ended and its status was not collected" + wait);
    case Life::lost:
      return Error::make(Code::conflict, pod + "was lost, and nobody asked what became of it" + wait);
    case Life::tampered:
      return Error::make(Code::conflict,
                         pod + "is running, and its state file was tampered with; see: sallyport pod ls");
    case Life::unknown:
      return Error::make(Code::io_error, pod + "cannot be looked at; see: sallyport pod ls");
    default:
      return Error::make(Code::conflict, pod + "is running");
  }
}

Result<Launched> spawn(const Startup& startup, const UniqueFd& lock) {
  TRY(const std::string program, os::sibling_program("sallyport-pod"));
  TRY(const Bytes content, encode(startup));
  TRY(const UniqueFd handed, os::sealed_file(as_text(content.view())));
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Error::from_errno("cannot make a pipe", errno);
  Launched launched{UniqueFd(ends[0])};
  const UniqueFd theirs{ends[1]};
  // Out of the way of the numbers that are given out below.
  const UniqueFd held{::fcntl(lock.get(), F_DUPFD_CLOEXEC, kLockFd + 1)};
  if (!held) return Error::from_errno("cannot hand over the pod's lock", errno);
  ::fcntl(launched.pipe.get(), F_SETFL, O_NONBLOCK);

  os::SpawnPlan plan(os::SpawnPlan::Place::own_session);
  plan.open("/dev/null", O_RDWR, STDIN_FILENO);
  plan.give(STDIN_FILENO, STDOUT_FILENO);
  plan.give(theirs.get(), STDERR_FILENO);
  plan.give(handed.get(), kStartupFd);
  plan.give(held.get(), kLockFd);
  plan.close_from(kLockFd + 1);
  plan.start_in("/");
  char* no_variables = nullptr;
  TRY(launched.pid, plan.spawn(program, {"sallyport-pod"}, &no_variables));
  return launched;
}

Status outcome(std::string_view said) {
  if (!said.empty() && said.back() == kReadyByte) return ok();
  while (!said.empty() && said.back() == '\n') said.remove_suffix(1);
  // An error that the daemon could still put into words is passed on as it is.
  const std::string_view last = said.substr(said.rfind('\n') == std::string_view::npos ? 0 : said.rfind('\n') + 1);
  wire::Decoder decoder;
  if (const auto document = decoder.parse(last); document && document->root().get("code")) {
    return wire::read_error(document->root());
  }
  return Error::make(Code::unavailable, "the pod's daemon died before it was ready: " +
                                            (said.empty() ? "it said nothing" : escape_for_display(said)));
}

Result<Record> verify(const Startup& startup) {
  TRY(Record record, Place(startup.pods_dir, startup.name).read());
  if (!wire::constant_time_equal(record.token, startup.token)) {
    return Error::make(Code::conflict, "the pod's state file was tampered with: it holds another token");
  }
  return record;
}

}  // namespace sallyport::pod
