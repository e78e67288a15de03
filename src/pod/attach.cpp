#include "pod/attach.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <utility>

#include "os/peer.h"
#include "pod/escape_keys.h"
#include "pod/give_back.h"
#include "pod/limits.h"
#include "pod/methods.h"
#include "pod/raw_terminal.h"
#include "pod/terminal_filter.h"

namespace sallyport::pod {
namespace {

constexpr std::string_view kHelp =
    "\r\n[escape, then: .  detach   t  take control   r  release it   ?  this help; twice: itself]\r\n";
constexpr std::string_view kDeaf = "\r\n[the agent reads nothing; what is typed now is thrown away]\r\n";

// Any terminal answers it, with this where all is well.
constexpr std::string_view kStatusQuery = "\x1b[5n", kStatusAnswer = "\x1b[0n";

// The same terminal or pipe, not blocking, without changing what others have open. A regular file never blocks,
// and opened again it would have a position of its own.
UniqueFd unblocked(int fd) {
  struct stat info{};
  if (::fstat(fd, &info) != 0 || (!S_ISCHR(info.st_mode) && !S_ISFIFO(info.st_mode))) return UniqueFd();
  return UniqueFd(
      ::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

std::optional<Size> size_of(int fd) {
  winsize window{};
  if (::ioctl(fd, TIOCGWINSZ, &window) != 0) return std::nullopt;
  const Size size{window.ws_row, window.ws_col};
  return size.is_sane() ? std::optional(size) : std::nullopt;
}

class Attachment {
 public:
  Attachment(Client& client, const AttachOptions& options)
      : client_(client),
        options_(options),
        is_typed_on_(::isatty(options.in) != 0),
        keys_(is_typed_on_ ? options.escape : '\0'),
        is_terminal_(::isatty(options.out) != 0),
        role_(options.role),
        filter_(TerminalFilter::Queries::drop),
        unblocked_(unblocked(options.out)),
        out_(unblocked_ ? unblocked_.get() : options.out) {}

  Status start() {
    client_.on_event([this](const wire::Message& event) { take_event(event); });
    TRY(input_, client_.open_stream());
    const auto size = size_of(options_.in);
    TRY(const Answer answer, client_.call("pod.attach", wire::to_json([&](wire::JsonWriter& json) {
                                            json.begin_object().member("role", to_string(options_.role));
                                            json.member("take", options_.takes);
                                            if (size) write_size(json, *size);
                                            json.key("input").begin_object().member("$stream", input_).end_object();
                                            json.end_object();
                                          })));
    output_ = stream_in(answer.value().get("output"));
    position_ = answer.value().get("offset").as_uint().value_or(0);
    begin_repaint(answer.value().get("repaint").as_uint().value_or(0));
    return ok();
  }

  Result<AttachEnd> run() {
    const RawTerminal raw(options_.in);
    // What came together with the answer is here already. What came before a connection was lost is shown, too.
    Status turned = show();
    while (turned && !is_over_ && !(is_lost_ && pending_.empty())) turned = turn(raw);
    if (is_terminal_) give_back();
    TRY(turned);
    end_.role = role_;
    return end_;
  }

 private:
  struct Gap {
    std::uint32_t stream = 0;
    std::uint64_t offset = 0, repaint = 0;
  };

  Status turn(const RawTerminal& raw) {
    const Millis deaf = until_deaf();
    const bool takes_keys = typed_.size() < kMaxTyped || (is_typed_on_ && deaf.count() <= 0);
    std::array<pollfd, 4> watched{{{is_lost_ ? -1 : client_.fd(), POLLIN, 0},
                                   {has_input_ && takes_keys ? options_.in : -1, POLLIN, 0},
                                   {raw.signals(), POLLIN, 0},
                                   {pending_.empty() ? -1 : out_, POLLOUT, 0}}};
    const int timeout = takes_keys || !is_typed_on_ ? -1 : static_cast<int>(deaf.count());
    if (::poll(watched.data(), watched.size(), timeout) < 0 && errno != EINTR) {
      return Error::from_errno("cannot wait for the terminal", errno);
    }
    if (watched[1].revents != 0) TRY(read_keys());
    if (watched[2].revents != 0) take_signals(raw);
    if (watched[0].revents != 0 && !client_.dispatch(Millis(0))) is_lost_ = true;
    send_typed();
    return show();
  }

  // What came, as far as the terminal takes it: more is asked for only when that is written.
  Status show() {
    if (gaps_to_drop_ > 0) drop_unshown();
    for (;;) {
      while (!pending_.empty()) {
        const ssize_t count = ::write(out_, pending_.data() + written_, pending_.size() - written_);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && errno == EAGAIN) return ok();
        if (count < 0) return Error::from_errno("cannot write to the terminal", errno);
        written_ += static_cast<std::size_t>(count);
        if (written_ == pending_.size()) {
          pending_.clear();
          written_ = 0;
        }
      }
      if (is_over_) return ok();
      // Little at once: from what is granted again, the pod knows how fast this terminal is.
      auto came = client_.read_stream(output_, Millis(0), wire::kPodWindow.grant_after);
      if (came && !came->empty()) {
        take_output(came->view());
      } else if (came) {
        has_ended_ = true;
      }
      if (has_ended_ && !gaps_.empty()) {
        switch_over();
      } else if (has_ended_ && exit_code_) {
        end_.why = AttachEnd::Why::exited;
        end_.exit_code = *exit_code_;
        is_over_ = true;
      } else if (!came || came->empty()) {
        return ok();
      }
    }
  }

  // After an interrupt nobody wants to see what came before it. The pod told of it behind that stream's end.
  void drop_unshown() {
    end_.skipped += pending_.size() - written_;
    // What was to show the other screen, or not, may be among it. The repaint clears what this moves.
    const bool is_screen_unclear = is_terminal_ && !pending_.empty();
    pending_.clear();
    written_ = 0;
    if (is_screen_unclear) pending_.append(filter_.is_on_other_screen() ? kEnterScreen : kLeaveScreen);
    for (; gaps_to_drop_ > 0; --gaps_to_drop_) {
      for (auto came = client_.read_stream(output_, Millis(0)); came && !came->empty();) {
        end_.skipped += came->size();
        came = client_.read_stream(output_, Millis(0));
      }
      switch_over();
    }
  }

  // The repaint repeats what was asked long ago: nobody waits for answers to it.
  void take_output(ByteView bytes) {
    if (!is_terminal_) {
      // A file has all of it once.
      const auto repeated = static_cast<std::size_t>(std::min<std::uint64_t>(repeated_, bytes.size()));
      repeated_ -= repeated;
      position_ += bytes.size() - repeated;
      return pending_.append(bytes.subspan(repeated));
    }
    const auto old = static_cast<std::size_t>(std::min<std::uint64_t>(repaint_left_, bytes.size()));
    const bool is_read = is_typed_on_ && role_ == Role::control;
    const std::size_t allowed = is_read ? queries_allowed() : 0;
    filter_.set_queries(TerminalFilter::Queries::drop, allowed);
    filter_.feed(bytes.first(old), pending_);
    repaint_left_ -= old;
    if (is_read && repaint_left_ == 0) filter_.set_queries(TerminalFilter::Queries::pass, filter_.queries_left());
    filter_.feed(bytes.subspan(old), pending_);
    queries_left_ -= allowed - filter_.queries_left();
  }

  // An agent that asks without end, or does not read its answers, must not drown what a person types.
  std::size_t queries_allowed() {
    const SteadyTime now = std::chrono::steady_clock::now();
    if (now - queries_since_ >= kQueryInterval) {
      queries_since_ = now;
      queries_left_ = kMaxQueries;
    }
    const bool is_read = typed_.empty() && client_.writable(input_) >= wire::kPodWindow.credit / 2;
    return is_read ? queries_left_ : 0;
  }

  void begin_repaint(std::uint64_t bytes) {
    repaint_left_ = bytes;
    filter_.reset();
    if (is_terminal_ && bytes > 0) pending_.append(kClear);
  }

  void switch_over() {
    const Gap gap = gaps_.front();
    gaps_.pop_front();
    output_ = gap.stream;
    has_ended_ = false;
    repeated_ = position_ - std::min(position_, gap.offset);
    position_ = std::max(position_, gap.offset);
    // What follows is another line than what was before.
    pending_.append(is_terminal_ ? kOutOfSequence : std::string_view("\n"));
    begin_repaint(gap.repaint);
  }

  void take_event(const wire::Message& event) {
    if (event.method == "pod.gap") {
      end_.skipped += event.params.get("skipped").as_uint().value_or(0);
      gaps_.push_back({stream_in(event.params.get("output")), event.params.get("offset").as_uint().value_or(0),
                       event.params.get("repaint").as_uint().value_or(0)});
      if (is_terminal_ && event.params.get("interrupted").as_bool().value_or(false)) gaps_to_drop_ = gaps_.size();
    } else if (event.method == "pod.exit") {
      exit_code_ = static_cast<int>(event.params.get("exit_code").as_int().value_or(1));
    } else if (event.method == "pod.role") {
      const bool controls = event.params.get("role").as_string() == "control";
      role_ = controls ? Role::control : Role::view;
      if (controls) resize();
      if (!controls) typed_.clear();
      say(controls ? "\r\n[you control the pod]\r\n" : "\r\n[somebody else controls the pod, or nobody; you view]\r\n");
    }
  }

  // How long what was typed still waits for an agent that takes none of it.
  Millis until_deaf() const {
    if (typed_.size() < kMaxTyped) return kDeafTime;
    return std::chrono::ceil<Millis>(last_taken_ + kDeafTime - std::chrono::steady_clock::now());
  }

  Status read_keys() {
    std::array<std::uint8_t, kMaxTyped> typed;
    const std::size_t room = kMaxTyped - std::min(kMaxTyped, typed_.size());
    const ssize_t count = ::read(options_.in, typed.data(), room > 0 ? room : typed.size());
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return ok();
    if (count <= 0) {
      has_input_ = false;  // the end of a file that was typed from; a terminal that is gone sends SIGHUP
      return ok();
    }
    ByteView left{typed.data(), static_cast<std::size_t>(count)};
    count_answers(left);
    if (typed_.empty()) last_taken_ = std::chrono::steady_clock::now();
    if (room == 0 && !std::exchange(is_told_deaf_, true)) say(kDeaf);
    while (!left.empty()) {
      Bytes keys;
      std::size_t used = 0;
      const KeyCommand command = keys_.feed(left, keys, used);
      left = left.subspan(used);
      if (role_ == Role::control && room > 0) typed_.append(keys.view());
      TRY(obey(command));
      if (is_over_) return ok();
    }
    return ok();
  }

  // As much as the pod takes: nothing waits for an agent that does not read.
  void send_typed() {
    const std::size_t count = std::min(typed_.size(), client_.writable(input_));
    if (count == 0 || is_lost_) return;
    if (!client_.write_stream(input_, typed_.view().first(count))) is_lost_ = true;
    typed_.erase_front(count);
    last_taken_ = std::chrono::steady_clock::now();
    is_told_deaf_ = false;
  }

  Status obey(KeyCommand command) {
    switch (command) {
      case KeyCommand::detach:
        end_.why = AttachEnd::Why::detached;
        is_over_ = true;
        break;
      case KeyCommand::take:
        return ask("pod.role", "{\"role\":\"control\"}");
      case KeyCommand::release:
        return ask("pod.role", "{\"role\":\"view\"}");
      case KeyCommand::help:
        say(kHelp);
        break;
      case KeyCommand::none:
        break;
    }
    return ok();
  }

  void take_signals(const RawTerminal& raw) {
    while (const int number = raw.next_signal()) {
      if (number != SIGWINCH) {
        end_.why = AttachEnd::Why::detached;
        is_over_ = true;
      } else if (role_ == Role::control) {
        resize();
      }
    }
  }

  // The pod's terminal has the size of who controls it.
  void resize() {
    const auto size = size_of(options_.in);
    if (!size) return;
    [[maybe_unused]] const Status asked = ask("pod.resize", wire::to_json([&](wire::JsonWriter& json) {
                                                json.begin_object();
                                                write_size(json, *size);
                                                json.end_object();
                                              }));
  }

  // Without waiting: what comes of it shows.
  Status ask(std::string_view method, std::string_view params) {
    if (!client_.start(method, params, [](Result<Answer>) {})) is_lost_ = true;
    return ok();
  }

  void say(std::string_view text) {
    if (is_terminal_) pending_.append(text);
  }

  // What it has not taken by now it is spared.
  void give_back() {
    const bool is_cut = !pending_.empty();
    pending_.clear();
    if (is_cut || filter_.is_on_other_screen()) say(kLeaveScreen);
    say(kGiveBack);
    if (filter_.has_set_colours()) say(kColoursBack);
    say(kNewLine);
    const bool may_answer = is_typed_on_ && filter_.has_left_traces();
    if (may_answer) say(kStatusQuery);
    const SteadyTime end = std::chrono::steady_clock::now() + kLastAnswers;
    ByteView left = pending_.view();
    while (!left.empty() && is_ready(out_, POLLOUT, end)) {
      const ssize_t count = ::write(out_, left.data(), left.size());
      if (count < 0 && errno != EAGAIN && errno != EINTR) return;
      left = left.subspan(count > 0 ? static_cast<std::size_t>(count) : 0);
    }
    end_.is_deaf = !left.empty();
    // The terminal's answers to the agent, and what it tells of the mouse, may still be on their way: whoever reads it
    // next would take them for keys. It answers in order: behind them comes that to a query of our own.
    while (may_answer && status_answers_ <= filter_.status_queries() && is_ready(options_.in, POLLIN, end)) {
      std::array<std::uint8_t, 256> some{};
      const ssize_t count = ::read(options_.in, some.data(), some.size());
      if (count <= 0) return;
      count_answers({some.data(), static_cast<std::size_t>(count)});
    }
  }

  static bool is_ready(int fd, short events, SteadyTime end) {
    pollfd watched{fd, events, 0};
    const auto left = std::chrono::ceil<Millis>(end - std::chrono::steady_clock::now());
    return left.count() > 0 && ::poll(&watched, 1, static_cast<int>(left.count())) > 0;
  }

  // However they are cut.
  void count_answers(ByteView typed) {
    for (const std::uint8_t key : typed) {
      const bool goes_on = key == static_cast<std::uint8_t>(kStatusAnswer[answer_matched_]);
      answer_matched_ = goes_on ? answer_matched_ + 1 : key == static_cast<std::uint8_t>(kStatusAnswer[0]) ? 1 : 0;
      if (answer_matched_ < kStatusAnswer.size()) continue;
      answer_matched_ = 0;
      ++status_answers_;
    }
  }

  Client& client_;
  AttachOptions options_;
  bool is_typed_on_;  // a terminal, whose answers are read here
  EscapeKeys keys_;
  bool is_terminal_;
  Role role_;
  TerminalFilter filter_;
  UniqueFd unblocked_;
  int out_;
  std::uint32_t input_ = 0, output_ = 0;
  std::deque<Gap> gaps_;
  std::size_t gaps_to_drop_ = 0;  // with all that came before them
  std::uint64_t position_ = 0;    // in the pod's output, where that is no terminal
  std::uint64_t repeated_ = 0;    // of what comes next: known already
  std::optional<int> exit_code_;
  std::uint64_t repaint_left_ = 0;
  std::size_t queries_left_ = 0;  // of the agent's, until this is over
  SteadyTime queries_since_{};
  std::size_t status_answers_ = 0, answer_matched_ = 0;
  Bytes typed_;  // and not sent yet
  SteadyTime last_taken_{};
  bool is_told_deaf_ = false;
  Bytes pending_;
  std::size_t written_ = 0;
  AttachEnd end_;
  bool has_input_ = true;
  bool has_ended_ = false;
  bool is_over_ = false;
  bool is_lost_ = false;
};

}  // namespace

Result<std::unique_ptr<Client>> connect(const Record& record) {
  std::unique_ptr<Client> client;
  if (record.is_tcp()) {
    auto proven = Client::connect_loopback({record.binding, record.token});
    if (!proven && proven.error().code == Code::unauthenticated) {
      return Error::make(Code::unauthenticated,
                         "whoever listens at the pod's address is not the pod; it learnt nothing",
                         proven.error().describe());
    }
    TRY(client, std::move(proven));
  } else {
    TRY(client, Client::connect_unix(record.address));
    const auto peer = os::identify_peer(client->fd());
    if (!peer || peer->identity.uid != ::geteuid() ||
        static_cast<std::uint64_t>(peer->identity.pid) != record.binding.pid) {
      return Error::make(Code::unauthenticated, "whoever listens at the pod's address is not the pod",
                         peer ? "pid " + std::to_string(peer->identity.pid) : peer.error().describe());
    }
  }
  client->set_window(wire::kPodWindow);
  return client;
}

Result<AttachEnd> attach_terminal(Client& client, const AttachOptions& options) {
  Attachment attachment(client, options);
  TRY(attachment.start());
  auto end = attachment.run();
  client.on_event({});
  return end;
}

}  // namespace sallyport::pod
