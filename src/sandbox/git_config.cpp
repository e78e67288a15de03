#include "sandbox/git_config.h"

#include <algorithm>
#include <array>

#include "sandbox/protected_names.h"

namespace sallyport::sandbox {
namespace {

// git's own notion of these, in every locale.
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_key_character(char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '-'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  }

  GitConfig parse() {
    config_.is_understood = text_.find('\0') == std::string_view::npos && parse_lines();
    return std::move(config_);
  }

 private:
  // The end of the file reads as a last newline.
  char next() {
    if (at_ >= text_.size()) {
      is_at_end_ = true;
      return '\n';
    }
    if (text_.substr(at_, 2) == "\r\n") ++at_;
    return text_[at_++];
  }

  bool parse_lines() {
    bool is_comment = false;
    for (;;) {
      const std::size_t begin = at_;
      const char c = next();
      if (c == '\n') {
        if (is_at_end_) return true;
        is_comment = false;
      } else if (is_comment || is_space(c)) {
        continue;
      } else if (c == '#' || c == ';') {
        is_comment = true;
      } else if (c == '[') {
        if (!parse_section()) return false;
      } else if (!is_letter(c) || !parse_setting(c, begin)) {
        return false;
      }
    }
  }

  bool parse_section() {
    std::string name;
    for (;;) {
      const char c = next();
      if (is_at_end_) return false;
      if (c == ']') break;
      if (is_space(c)) return parse_subsection(name, c);
      if (!is_key_character(c) && c != '.') return false;
      name.push_back(lower(c));
    }
    const std::size_t dot = name.find('.');
    section_ = dot == std::string::npos ? name : name.substr(0, dot) + ".*";
    return true;
  }

  bool parse_subsection(const std::string& name, char c) {
    while (is_space(c)) {
      if (c == '\n') return false;
      c = next();
    }
    if (c != '"') return false;
    for (c = next(); c != '"'; c = next()) {
      if (c == '\\') c = next();
      if (c == '\n') return false;
    }
    section_ = name.substr(0, name.find('.')) + ".*";
    return next() == ']';
  }

  bool parse_setting(char first, std::size_t begin) {
    GitSetting setting{section_ + "." + lower(first), "", begin};
    char c = next();
    for (; !is_at_end_ && is_key_character(c); c = next()) setting.key.push_back(lower(c));
    while (c == ' ' || c == '\t') c = next();
    if (c == '=') {
      if (!parse_value(setting.value)) return false;
    } else if (c != '\n') {
      return false;
    } else {
      setting.value = "true";
    }
    setting.end = is_at_end_ ? at_ : at_ - 1;
    config_.settings.push_back(std::move(setting));
    return true;
  }

  bool parse_value(std::string& value) {
    bool is_quoted = false;
    bool is_comment = false;
    std::size_t kept = 0;  // spaces behind this are the end's
    for (;;) {
      char c = next();
      if (c == '\n') {
        value.resize(kept);
        return !is_quoted;
      }
      if (is_comment) continue;
      if (is_space(c) && !is_quoted) {
        if (!value.empty()) value.push_back(c);
        continue;
      }
      if (!is_quoted && (c == ';' || c == '#')) {
        is_comment = true;
        continue;
      }
      if (c == '"') {
        is_quoted = !is_quoted;
      } else if (c != '\\') {
        value.push_back(c);
      } else if (!parse_escape(value)) {
        return false;
      }
      kept = value.size();
    }
  }

  bool parse_escape(std::string& value) {
    constexpr std::string_view kNames = "tbn\\\"";
    constexpr std::string_view kMeanings = "\t\b\n\\\"";
    const char c = next();
    if (c == '\n') return true;  // continued
    const std::size_t which = kNames.find(c);
    if (which == std::string_view::npos) return false;
    value.push_back(kMeanings[which]);
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool is_at_end_ = false;
  std::string section_;
  GitConfig config_;
};

// A remote may name a program (ext::, or a scheme that git itself does not know) or look like an option.
bool is_plain_address(std::string_view address) {
  constexpr std::array<std::string_view, 9> kSchemes = {"https", "http", "ssh",     "git",    "file",
                                                        "ftp",   "ftps", "git+ssh", "ssh+git"};
  if (address.find("::") != std::string_view::npos || address.starts_with('-')) return false;
  const std::size_t end = address.find("://");
  return end == std::string_view::npos ||
         std::find(kSchemes.begin(), kSchemes.end(), address.substr(0, end)) != kSchemes.end();
}

std::string pair_of(const GitSetting& setting) { return setting.key + "=" + setting.value; }

}  // namespace

GitConfig read_git_config(std::string_view text) { return Parser(text).parse(); }

bool is_harmless(const GitSetting& setting) {
  if (std::find(kHarmlessGitKeys.begin(), kHarmlessGitKeys.end(), setting.key) == kHarmlessGitKeys.end()) return false;
  // Newer gits take an address here.
  if (setting.key == "extensions.refstorage") return setting.value == "files" || setting.value == "reftable";
  const bool may_be_url = setting.key.ends_with(".url") || setting.key.ends_with(".remote");
  return !may_be_url || is_plain_address(setting.value);
}

OwnSettings harmful_settings(std::string_view text) {
  OwnSettings harmful;
  for (const GitSetting& setting : read_git_config(text).settings) {
    if (!is_harmless(setting)) harmful.insert(pair_of(setting));
  }
  return harmful;
}

std::optional<std::string> without_harmful(std::string_view text, const OwnSettings& own) {
  const GitConfig config = read_git_config(text);
  if (!config.is_understood) return "";
  std::string kept;
  std::size_t from = 0;
  for (const GitSetting& setting : config.settings) {
    if (is_harmless(setting) || own.contains(pair_of(setting))) continue;
    // Alone on its lines it goes with them; a section's head before it stays.
    std::size_t begin = setting.begin;
    std::size_t end = setting.end;
    while (begin > from && (text[begin - 1] == ' ' || text[begin - 1] == '\t')) --begin;
    if ((begin == 0 || text[begin - 1] == '\n') && end < text.size()) ++end;
    kept.append(text.substr(from, begin - from));
    from = end;
  }
  if (from == 0) return std::nullopt;
  kept.append(text.substr(from));
  return kept;
}

}  // namespace sallyport::sandbox
