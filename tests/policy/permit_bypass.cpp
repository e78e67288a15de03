// Only the engine makes a permit: whoever tries to act without a decision does not compile.
#include "policy/policy.h"

namespace sallyport {

struct Forger {
  static bool act(const Permit& permit) { return permit.principal().is_host(); }

  static bool honest(const policy::Engine& engine, const Principal& principal) {
    const policy::Question question{principal, 1, "test.ping", ""};
    const auto permit = engine.permit(question, engine.consider(question), {.deputy = false, .human = false});
    return permit && act(*permit);
  }

#ifdef BYPASS
  static bool by_pass() { return act(Permit(Principal::host(), "test.ping")); }
#endif
};

}  // namespace sallyport
