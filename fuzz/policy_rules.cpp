// Rule and profile files, and payloads against the rules that load: whatever the bytes are, loading says yes or
// names a fault, and deciding is the same twice.
#include <cstdlib>

#include "policy/policy.h"
#include "policy/policy_file.h"

namespace {

class StillClock final : public sallyport::Clock {
 public:
  sallyport::SteadyTime steady() const override { return {}; }
  std::int64_t unix_millis() const override { return 0; }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sallyport;
  // Up to a NUL byte: the file; behind it: a payload.
  const std::string_view all = as_text({data, size});
  const std::size_t end = all.find('\0');
  const std::string_view text = all.substr(0, end);
  const std::string_view payload = end == std::string_view::npos ? "{}" : all.substr(end + 1);
  const auto file = policy::parse_policy_file(text, "f");
  if (!file) {
    // A fault says where.
    if (!file.error().message.starts_with("f:")) std::abort();
    return 0;
  }
  wire::Decoder decoder;
  const auto document = decoder.parse(payload);
  const StillClock clock;
  const policy::Tokens tokens(clock);
  policy::Engine engine(policy::HostPolicy(), tokens);
  engine.replace(policy::HostPolicy(), file->rules);
  for (const policy::Profile& profile : file->profiles)
    engine.set_container(profile.name, policy::container_policy(profile));
  engine.set_container("c", {.methods = {"fs.*"}, .token_methods = {}, .signals = {"deploy"}, .profile = "p"});
  const Principal principal = Principal::container("c");
  for (const char* name : {"deploy", "fs.read", "a.b.c", ""}) {
    const policy::Question question{principal, 1, name, "", document ? document->root() : wire::Value()};
    const policy::Decision decision = engine.consider(question);
    if (!(decision == engine.consider(question))) std::abort();
    const bool is_plain =
        !decision.is_denied && !decision.needs_deputy && !decision.needs_human && decision.rates.empty();
    if (engine.permit_at_once(question).has_value() != is_plain) std::abort();
    if (decision.is_denied && engine.permit(question, decision, {true, true})) std::abort();
  }
  return 0;
}
