#include "policy/engine.h"

namespace sallyport::policy {

Result<Permit> Engine::decide(const Question& question) const {
  if (!question.principal.is_host() || !matches_any(host_.methods, question.method)) {
    return Error::make(Code::policy_denied, "policy does not allow this method",
                       "default deny for " + question.principal.to_string());
  }
  if (matches_any(host_.token_methods, question.method)) {
    TRY(tokens_.check(question.token, question.principal, question.process, question.method));
  }
  return Permit(question.principal, question.method);
}

}  // namespace sallyport::policy
