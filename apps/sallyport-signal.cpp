// Raises a signal from inside a container, through the files of its mailbox. Needs nothing but the mailbox:
// no door, no library, no configuration. Found in every container at /run/sallyport/bin, which is in PATH.
#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace {

constexpr const char* kUsage =
    "Usage: sallyport-signal SIGNAL [--payload FILE] [--id UUID] [--wait] [--timeout SECONDS]\n"
    "Raises a signal of this container. One that carries data takes its payload, a JSON object, from a\n"
    "file or, with -, from standard input; it is then answered under the request id that is printed.\n\n"
    "  --payload FILE     what the signal carries; without it a signal is a name and nothing else\n"
    "  --id UUID          send it under this id: the same request again gets the same answer\n"
    "  --wait             print the answer, as JSON, instead of the id\n"
    "  --timeout SECONDS  wait no longer than this\n"
    "  --version, --help\n\n"
    "Exit: 0 raised, or done; 1 failed; 2 wrong usage; 3 denied; 4 no mailbox, or no answer in time;\n"
    "5 a human has not decided in time. What was raised stays raised in either case.\n";

enum Exit : int { kDone = 0, kFailed = 1, kUsageError = 2, kDenied = 3, kUnreachable = 4, kUndecided = 5 };

constexpr std::size_t kMaxBytes = 64U << 10;

using Clock = std::chrono::steady_clock;

struct Arguments {
  std::string signal, payload_file, id;
  bool should_wait = false;
  double timeout = 0;  // seconds; 0: none
};

int fail(Exit code, const std::string& problem) {
  std::fprintf(stderr, "sallyport-signal: %s\n", problem.c_str());
  return code;
}

int fail_errno(const std::string& what) { return fail(kUnreachable, what + ": " + std::strerror(errno)); }

std::string random_hex(std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) {
    std::uint8_t byte = 0;
    if (::getrandom(&byte, 1, 0) != 1) std::abort();
    text += "0123456789abcdef"[byte >> 4U];
    text += "0123456789abcdef"[byte & 15U];
  }
  return text;
}

std::string make_id() {
  std::string text = random_hex(16);
  text[12] = '4';
  text[16] = '8';
  for (const std::size_t dash : {8U, 13U, 18U, 23U}) text.insert(dash, 1, '-');
  return text;
}

bool read_all(int fd, std::string& content) {
  char block[4096];
  for (;;) {
    const ssize_t count = ::read(fd, block, sizeof block);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count == 0;
    content.append(block, static_cast<std::size_t>(count));
    if (content.size() > kMaxBytes) return true;
  }
}

// Whether a text is one JSON object: what is not could not be answered, for its id stands in the same text. What else
// the warden demands of it, it says itself.
class JsonCheck {
 public:
  explicit JsonCheck(std::string_view text) : rest_(text) {}
  bool is_object() {
    skip_blanks();
    return rest_.starts_with('{') && value(0) && (skip_blanks(), rest_.empty());
  }

 private:
  static constexpr int kMaxDepth = 32;

  void skip_blanks() {
    const std::size_t first = rest_.find_first_not_of(" \t\r\n");
    rest_.remove_prefix(first == std::string_view::npos ? rest_.size() : first);
  }
  bool take(std::string_view token) {
    skip_blanks();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  bool string() {
    if (!take("\"")) return false;
    for (std::size_t i = 0; i < rest_.size(); ++i) {
      if (static_cast<unsigned char>(rest_[i]) < 0x20) return false;
      if (rest_[i] == '\\') {
        ++i;
      } else if (rest_[i] == '"') {
        rest_.remove_prefix(i + 1);
        return true;
      }
    }
    return false;
  }
  bool number() {
    skip_blanks();
    const std::string_view digits = rest_.substr(0, rest_.find_first_not_of("+-.0123456789Ee"));
    double parsed = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), parsed);
    rest_.remove_prefix(digits.size());
    return error == std::errc() && end == digits.data() + digits.size();
  }
  bool list(std::string_view close, bool has_keys, int depth) {
    if (take(close)) return true;
    do {
      if (has_keys && !(string() && take(":"))) return false;
      if (!value(depth)) return false;
    } while (take(","));
    return take(close);
  }
  bool value(int depth) {
    if (depth > kMaxDepth) return false;
    if (take("{")) return list("}", true, depth + 1);
    if (take("[")) return list("]", false, depth + 1);
    return string() || take("true") || take("false") || take("null") || number();
  }

  std::string_view rest_;
};

// Written where nobody looks, then renamed to where the warden does: it is there as a whole or not at all.
// A request's file is named after its id: it is answered even if the warden cannot make sense of what is in it.
bool drop(const std::string& mailbox, const std::string& message, const std::string& id = {}) {
  const std::string name = std::to_string(Clock::now().time_since_epoch().count()) + "-" + random_hex(8);
  const std::string from = mailbox + "/in/tmp/" + name, to = mailbox + "/in/new/" + (id.empty() ? name : id);
  const int fd = ::open(from.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  const bool is_written = ::write(fd, message.data(), message.size()) == static_cast<ssize_t>(message.size());
  if (!is_written && errno == 0) errno = ENOSPC;
  ::close(fd);
  if (is_written && ::rename(from.c_str(), to.c_str()) == 0) return true;
  const int error = errno;
  ::unlink(from.c_str());
  errno = error;
  return false;
}

bool read_reply(const std::string& path, std::string& reply) {
  reply.clear();
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char block[4096];
  for (ssize_t count = 0; (count = ::read(fd, block, sizeof block)) > 0;) {
    reply.append(block, static_cast<std::size_t>(count));
  }
  ::close(fd);
  return !reply.empty();
}

// The warden writes these in one spelling only.
bool is_interim(const std::string& reply, const std::string& id, const char* state) {
  return reply ==
         "{\"id\":\"" + id + "\",\"type\":\"response\",\"result\":{\"state\":\"" + state + "\",\"final\":false}}";
}

int exit_for(const std::string& reply, const std::string& id) {
  const std::string head = "{\"id\":\"" + id + "\",\"type\":\"response\",\"";
  if (reply.starts_with(head + "result\"")) return kDone;
  for (const char* code : {"POLICY_DENIED", "APPROVAL_DENIED", "APPROVAL_EXPIRED"}) {
    if (reply.starts_with(head + "error\":{\"code\":\"" + code + "\"")) return kDenied;
  }
  return kFailed;
}

int await_reply(const std::string& mailbox, const std::string& id, double timeout) {
  const std::string directory = mailbox + "/out", path = directory + "/" + id + ".json";
  const int watch = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (watch >= 0) ::inotify_add_watch(watch, directory.c_str(), IN_MOVED_TO);
  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                   std::chrono::duration<double>(timeout > 0 ? timeout : 0));
  std::string reply;
  for (;;) {
    const bool is_there = read_reply(path, reply);
    const bool is_waiting = is_there && (is_interim(reply, id, "awaiting_human") || is_interim(reply, id, "unknown"));
    if (is_there && !is_waiting) {
      std::printf("%s\n", reply.c_str());
      return exit_for(reply, id);
    }
    // The notice is a hint: looking again every second is what makes it certain.
    auto left = std::chrono::milliseconds(1000);
    if (timeout > 0) {
      left = std::min(left, std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()));
      if (left.count() <= 0) {
        std::fprintf(stderr, "sallyport-signal: %s is still open: %s\n", id.c_str(),
                     is_waiting ? "nobody has decided yet" : "no answer came in time");
        return is_waiting ? kUndecided : kUnreachable;
      }
    }
    pollfd ready{watch, POLLIN, 0};
    if (::poll(&ready, watch >= 0 ? 1 : 0, static_cast<int>(left.count())) > 0) {
      char ignored[4096];
      while (::read(watch, ignored, sizeof ignored) > 0) continue;
    }
  }
}

int usage(const std::string& problem) {
  std::fprintf(stderr, "sallyport-signal: %s\n%s", problem.c_str(), kUsage);
  return kUsageError;
}

// Whether to go on; otherwise `code` says how to end.
bool parse(int argc, char** argv, Arguments& arguments, int& code) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    const bool takes_value = option == "--payload" || option == "--id" || option == "--timeout";
    const bool has_value = i + 1 < argc && *argv[i + 1] != '\0';
    if (takes_value && !has_value) return code = usage(std::string(option) + " needs a value"), false;
    const std::string value = takes_value ? argv[++i] : "";
    if (option == "--help" || option == "-h") {
      std::fputs(kUsage, stdout);
      return code = kDone, false;
    }
    if (option == "--version") {
      std::puts("sallyport-signal " SALLYPORT_VERSION);
      return code = kDone, false;
    }
    if (option == "--payload") {
      arguments.payload_file = value;
    } else if (option == "--id") {
      arguments.id = value;
    } else if (option == "--wait") {
      arguments.should_wait = true;
    } else if (option == "--timeout") {
      char* end = nullptr;
      arguments.timeout = std::strtod(value.c_str(), &end);
      if (*end != '\0' || !(arguments.timeout > 0)) return code = usage("--timeout takes seconds"), false;
    } else if (!option.starts_with("-") && arguments.signal.empty()) {
      arguments.signal = option;
    } else {
      return code = usage("unknown argument: " + std::string(option)), false;
    }
  }
  const auto is_dash = [](std::size_t i) { return i == 8 || i == 13 || i == 18 || i == 23; };
  for (std::size_t i = 0; i < arguments.id.size(); ++i) {
    const bool is_hex = std::strchr("0123456789abcdef", arguments.id[i]) != nullptr;
    if (arguments.id.size() != 36 || (is_dash(i) ? arguments.id[i] != '-' : !is_hex)) {
      return code = usage("--id takes a UUID in lower case"), false;
    }
  }
  if (arguments.signal.empty()) return code = usage("which signal?"), false;
  if (arguments.signal.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") != std::string::npos) {
    return code = usage("a signal's name is made of a-z, 0-9 and _"), false;
  }
  if (arguments.payload_file.empty() && (arguments.should_wait || !arguments.id.empty())) {
    return code = usage("only a signal with a payload is answered"), false;
  }
  return true;
}

int raise_signal(const Arguments& arguments, const std::string& mailbox) {
  if (arguments.payload_file.empty()) {
    return drop(mailbox, "{\"signal\":\"" + arguments.signal + "\"}") ? kDone : fail_errno("cannot use the mailbox");
  }
  const bool is_stdin = arguments.payload_file == "-";
  const int fd = is_stdin ? STDIN_FILENO : ::open(arguments.payload_file.c_str(), O_RDONLY | O_CLOEXEC);
  std::string payload;
  if (fd < 0 || !read_all(fd, payload)) {
    return fail(kUsageError, "cannot read " + arguments.payload_file + ": " + std::strerror(errno));
  }
  if (payload.size() <= kMaxBytes && !JsonCheck(payload).is_object()) {
    return fail(kUsageError, "the payload in " + arguments.payload_file + " is no JSON object; nothing was raised");
  }
  const std::string id = arguments.id.empty() ? make_id() : arguments.id;
  const std::string message =
      "{\"signal\":\"" + arguments.signal + "\",\"request_id\":\"" + id + "\",\"payload\":" + payload + "}";
  if (message.size() > kMaxBytes) return fail(kUsageError, "the payload is larger than 64 KiB");
  if (!drop(mailbox, message, id)) return fail_errno("cannot use the mailbox");
  if (arguments.should_wait) return await_reply(mailbox, id, arguments.timeout);
  std::puts(id.c_str());
  return kDone;
}

}  // namespace

int main(int argc, char** argv) {
  // What is opened next must not become a standard descriptor that was closed.
  int fd = 0;
  do {
    fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  Arguments arguments;
  int code = kDone;
  if (!parse(argc, argv, arguments, code)) return code;
  const char* mailbox = std::getenv("SALLYPORT_MAILBOX");
  if (mailbox == nullptr) mailbox = "/run/sallyport/mailbox";
  if (::access((std::string(mailbox) + "/in/new").c_str(), W_OK) != 0) {
    return fail(kUnreachable, std::string("there is no mailbox at ") + mailbox + "; this runs inside a container");
  }
  return raise_signal(arguments, mailbox);
}
