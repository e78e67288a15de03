#include "sandbox/launch_errors.h"

#include <cerrno>

#include "sandbox/launch.h"
#include "sandbox/protections.h"

namespace sallyport::sandbox {
namespace {

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text;
}

}  // namespace

std::string item_name(const Plan& plan, Step step, std::uint32_t index) {
  const bool is_item = step == Step::directories || step == Step::bind || step == Step::scratch;
  const bool is_cover = step == Step::pin || step == Step::mask;
  if (is_item && index < plan.items.size()) return "/" + plan.items[index].target;
  if (is_cover && index < plan.covers.size()) return plan.covers[index].target;
  if (step == Step::landlock && index < plan.landlock_rules.size()) return plan.landlock_rules[index].path;
  return {};
}

Error launch_error(const Plan& plan, const Notice& notice) {
  if (notice.step == Step::exec && !plan.command.empty()) {
    const std::string& name = plan.command.front();
    if (notice.value == ENOENT) return Error::make(Code::not_found, std::string(kNoSuchCommand) + name);
    if (notice.value == EACCES) {
      return Error::make(Code::policy_denied, std::string(kNotExecutable) + name,
                         "not on the exec list, or without the execute permission");
    }
    if (notice.value == ENOEXEC) return no_program(name);
  }
  Error error = Error::from_errno("cannot start the sandbox: " + std::string(to_string(notice.step)), notice.value,
                                  item_name(plan, notice.step, notice.index));
  error.code = Code::unavailable;
  const bool is_refusal = notice.value == EPERM || notice.value == EACCES;
  if (is_refusal &&
      (notice.step == Step::uid_map || notice.step == Step::private_mounts || notice.step == Step::root)) {
    error.detail += " user namespaces exist but give no rights here (AppArmor or a container around us?)";
  }
  return error;
}

Error no_program(const std::string& name) {
  return Error::make(Code::invalid_params,
                     name + " is no program for this machine, and has no #! line; try: sh " + name);
}

Error no_socket(int error) { return Error::from_errno("cannot make the control socket", error); }

Error not_accepted(const Machine& machine, const std::string& why) {
  return Error::make(Code::unavailable,
                     why + "; a weak sandbox (--allow-weak) was not accepted, in which would be lost: " +
                         joined(weak_losses(machine)));
}

Error workspace_changes(const std::string& moved) {
  return Error::make(
      Code::unavailable,
      "the workspace changes all the time, so that its secrets and settings cannot be protected: end what "
      "moves its directories, or try again",
      "the last that was not where it had been found: " + moved);
}

}  // namespace sallyport::sandbox
