#include "policy/engine.h"

namespace sallyport::policy {

Result<Permit> Engine::decide(const Question& question) const {
  const std::vector<std::string>* methods = &host_.methods;
  const std::vector<std::string>* token_methods = &host_.token_methods;
  if (!question.principal.is_host()) {
    const auto found = containers_.find(question.principal.container_id());
    methods = found == containers_.end() ? nullptr : &found->second.methods;
    token_methods = found == containers_.end() ? nullptr : &found->second.token_methods;
  }
  if (methods == nullptr || !matches_any(*methods, question.method)) {
    return Error::make(Code::policy_denied, "policy does not allow this method",
                       "default deny for " + question.principal.to_string());
  }
  if (matches_any(*token_methods, question.method)) {
    TRY(tokens_.check(question.token, question.principal, question.process, question.method));
  }
  return Permit(question.principal, question.method);
}

}  // namespace sallyport::policy
