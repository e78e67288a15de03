#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "cli/command.h"
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
      return Exit::unreachable;
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

void print(std::string_view line) { std::printf("%.*s\n", static_cast<int>(line.size()), line.data()); }

Exit report(const Context& context, const Error& error) {
  if (context.wants_json) {
    const std::string json = wire::to_json([&](wire::JsonWriter& writer) { wire::write_error(writer, error); });
    std::fprintf(stderr, "%s\n", json.c_str());
  } else {
    std::string text = error.message;
    if (!error.detail.empty()) text += " (" + error.detail + ")";
    std::fprintf(stderr, "%s %s\n", coloured("31", "sallyport:", STDERR_FILENO).c_str(),
                 escape_text_for_display(text).c_str());  // it may name what somebody in a sandbox named
  }
  return exit_for(error);
}

}  // namespace sallyport::cli
