// Reads the profiles of src/policy/builtin_profiles.h and writes them as a C++ source: make_profiles OUTPUT.
#include <concepts>
#include <cstdio>
#include <cstdlib>

#include "policy/builtin_profiles.h"
#include "policy/profile.h"

namespace {

using namespace sallyport::policy;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "make_profiles: %s\n", what.c_str());
  std::exit(1);
}

std::string literal(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '\n') {
      quoted += "\\n";
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string literal(bool value) { return value ? "true" : "false"; }

std::string literal(std::integral auto value) { return std::to_string(value) + "U"; }

std::string literal(const std::vector<std::string>& list) {
  std::string text = "list({";
  for (const std::string& item : list) text += literal(item) + ", ";
  return text + "})";
}

std::string literal(const std::map<std::string, std::string>& map) {
  std::string text = "{";
  for (const auto& [key, value] : map) text += "{" + literal(key) + ", " + literal(value) + "}, ";
  return text + "}";
}

std::string literal(const std::optional<RateLimit>& rate) {
  return "RateLimit{" + literal(rate->rule) + ", " + std::to_string(rate->count) + ", Millis(" +
         std::to_string(rate->period.count()) + ")}";
}

// Writes what differs from a new object, and keeps what it wrote.
template <typename T>
class Writer {
 public:
  Writer(std::FILE* out, const T& wanted, const char* variable) : out_(out), wanted_(wanted), variable_(variable) {}

  template <typename Get>
  Writer& field(const char* name, Get get) {
    if (get(wanted_) == get(written_)) return *this;
    std::fprintf(out_, "  %s.%s = %s;\n", variable_, name, literal(get(wanted_)).c_str());
    get(written_) = get(wanted_);
    return *this;
  }
  T& written() { return written_; }
  // What this program does not know of must not be lost.
  void check(const std::string& what) const {
    if (written_ != wanted_) fail(what + " has a field that is not written");
  }

 private:
  std::FILE* out_;
  const T& wanted_;
  const char* variable_;
  T written_;
};

#define FIELD(name) field(#name, [](auto& object) -> auto& { return object.name; })

void write(std::FILE* out, const Rule& rule) {
  std::fprintf(out, "  Rule& rule = profile.rules.emplace_back();\n");
  Writer<Rule> writer(out, rule, "rule");
  writer.FIELD(name).FIELD(source).FIELD(match).FIELD(principals).FIELD(profiles);
  writer.FIELD(allows).FIELD(needs_deputy).FIELD(needs_human).FIELD(denies).FIELD(permits);
  writer.FIELD(rate).FIELD(text);
  writer.check(rule.name);
}

void write(std::FILE* out, const Profile& profile) {
  Writer<Profile> writer(out, profile, "profile");
  writer.FIELD(name).FIELD(source).FIELD(fs_read).FIELD(fs_write).FIELD(fs_deny).FIELD(exec);
  writer.FIELD(net_allow).FIELD(net_deny).FIELD(methods).FIELD(token_methods).FIELD(signals);
  writer.FIELD(agent).FIELD(deputy).FIELD(command).FIELD(env).FIELD(env_pass);
  writer.FIELD(limits.memory).FIELD(limits.pids).FIELD(limits.open_files).FIELD(limits.file_size).FIELD(limits.scratch);
  writer.FIELD(refuse_hard_links).FIELD(all_landlock_rights).FIELD(allow_weak).FIELD(text);
  std::fprintf(out, "  profile.rules.reserve(%zu);\n", profile.rules.size());
  for (const Rule& rule : profile.rules) {
    std::fprintf(out, "  {\n");
    write(out, rule);
    std::fprintf(out, "  }\n");
    writer.written().rules.push_back(rule);
  }
  writer.check(profile.name);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::FILE* out = std::fopen(argv[1], "w");
  if (out == nullptr) return 1;
  std::fprintf(out,
               "// Made by tools/make_profiles.cpp from src/policy/builtin_profiles.h; do not edit.\n"
               "#include \"policy/made_profiles.h\"\n\nnamespace sallyport::policy {\nnamespace {\n\n"
               "std::vector<std::string> list(std::initializer_list<std::string_view> items) {\n"
               "  return {items.begin(), items.end()};\n}\n");
  std::string table;
  for (const BuiltinProfile& builtin : kBuiltinProfiles) {
    const auto profiles = parse_profiles(builtin.text, kBuiltinSource);
    if (!profiles) fail(profiles.error().message);
    if (profiles->size() != 1 || profiles->front().name != builtin.name) fail("not one profile of its name");
    const std::string number = std::to_string(&builtin - kBuiltinProfiles);
    std::fprintf(out, "\nProfile make_%s() {\n  Profile profile;\n", number.c_str());
    write(out, profiles->front());
    std::fprintf(out, "  return profile;\n}\n");
    table += "    {" + literal(std::string(builtin.name)) + ", make_" + number + "},\n";
  }
  std::fprintf(out,
               "\nconstexpr MadeProfile kProfiles[] = {\n%s};\n\n}  // namespace\n\n"
               "std::span<const MadeProfile> made_profiles() { return kProfiles; }\n\n"
               "}  // namespace sallyport::policy\n",
               table.c_str());
  return std::fclose(out) == 0 ? 0 : 1;
}
