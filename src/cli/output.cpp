#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "cli/command.h"
#include "pod/record.h"
#include "wire/message.h"

namespace sallyport::cli {
namespace {

std::string coloured(const char* code, std::string_view text, int fd) {
  const char* terminal = std::getenv("TERM");
  const bool is_dumb = terminal != nullptr && std::string_view(terminal) == "dumb";
  if (::isatty(fd) == 0 || is_dumb || std::getenv("NO_COLOR") != nullptr) return std::string(text);
  return std::string("\x1b[") + code + "m" + std::string(text) + "\x1b[0m";
}

Exit exit_for(const Error& error) {
  switch (error.code) {
    case Code::policy_denied:
    case Code::approval_denied:
    case Code::approval_expired:
    case Code::unauthenticated:
      return Exit::denied;
    case Code::unavailable:
      return pod::is_lost(error) ? Exit::lost : Exit::unreachable;
    default:
      return Exit::failed;
  }
}

}  // namespace

bool is_terminal() { return ::isatty(STDOUT_FILENO) != 0; }
std::string green(std::string_view text) { return coloured("32", text, STDOUT_FILENO); }
std::string red(std::string_view text) { return coloured("31", text, STDOUT_FILENO); }
std::string yellow(std::string_view text) { return coloured("33", text, STDOUT_FILENO); }
std::string dim(std::string_view text) { return coloured("2", text, STDOUT_FILENO); }

// JSON has the same meaning then.
std::string for_terminal(std::string_view text, int fd) {
  if (::isatty(fd) == 0) return std::string(text);
  constexpr std::array<std::string_view, 5> kOurs = {"\x1b[0m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"};
  std::string shown;
  while (!text.empty()) {
    const auto* const colour =
        std::find_if(kOurs.begin(), kOurs.end(), [&](std::string_view each) { return text.starts_with(each); });
    if (colour != kOurs.end()) {
      shown += *colour;
      text.remove_prefix(colour->size());
      continue;
    }
    const std::size_t end = std::min(text.find('\x1b', 1), text.size());
    shown += escape_text_for_display(text.substr(0, end));
    text.remove_prefix(end);
  }
  return shown;
}

void print(std::string_view line) { std::printf("%s\n", for_terminal(line, STDOUT_FILENO).c_str()); }

Exit report(const Context& context, const Error& error) {
  if (context.wants_json) {
    const std::string json = wire::to_json([&](wire::JsonWriter& writer) { wire::write_error(writer, error); });
    std::fprintf(stderr, "%s\n", for_terminal(json, STDERR_FILENO).c_str());
  } else {
    std::string text = error.message;
    if (!error.detail.empty()) text += " (" + error.detail + ")";
    std::fprintf(stderr, "%s %s\n", coloured("31", "sallyport:", STDERR_FILENO).c_str(),
                 escape_text_for_display(text).c_str());  // it may name what somebody in a sandbox named
  }
  return exit_for(error);
}

}  // namespace sallyport::cli
