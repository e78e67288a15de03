#include "mcp/advice.h"

#include "mcp/limits.h"
#include "wire/json.h"

namespace sallyport::mcp {
namespace {

using wire::Value;

// Lines that are near to what was looked for, as they really are.
std::string nearest(Value details) {
  std::string text;
  for (const Value line : details.get("nearest").items()) {
    text += "\n  line " + std::to_string(line.get("line").as_int().value_or(0)) + ": " +
            std::string(line.get("text").as_string().value_or(""));
    if (line.get("differs_in")) text += "   (differs in whitespace only)";
  }
  return text.empty() ? "" : "\nNearest lines:" + text;
}

std::string for_directory(std::string_view tool) {
  if (tool == "read") return "It is a directory: use list.";
  if (tool == "copy" || tool == "remove") return "It is a directory: set recursive.";
  return "It is a directory: name a file in it.";
}

std::string for_errno(std::string_view name, std::string_view tool) {
  if (tool == "exec") return "";  // of its start, and not of a file that it names
  if (name == "ENOENT") return "Find the right path with glob or list.";
  if (name == "EISDIR") return for_directory(tool);
  if (name == "ENOTDIR") return "A part of the path is a file: check it with list.";
  if (name == "EROFS") return "It is read-only in this sandbox. Write elsewhere, or tell the user that it is needed.";
  if (name == "ELOOP")
    return "A symbolic link on the way leads in a circle or may not be followed: look at it with stat.";
  if (name == "ENAMETOOLONG") return "A name may have 255 bytes, a path 4095: choose a shorter one.";
  // A name that the sandbox covers is a mount of its own.
  if (name == "EBUSY") return "It is in use, or protected in this sandbox. Do not try other ways; tell the user.";
  if (name == "EACCES" || name == "EPERM") return "It is protected. Do not try other ways; tell the user.";
  if (name == "ENOTEMPTY") return "Set recursive to remove it with all that is in it.";
  if (name == "ENOSPC" || name == "EDQUOT") return "The disk is full. Nothing was changed; tell the user.";
  if (name == "ENXIO" || name == "EOPNOTSUPP") return "It is no regular file (a FIFO, a socket or a device).";
  return "";
}

std::string for_stale(Value details) {
  if (details.get("wanted").as_string() == "absent")
    return "Read it, then decide: without if_match it would be replaced.";
  if (details.get("sha256").as_string() == "absent") return "Somebody removed it: look with list, then decide.";
  return "Somebody changed the file: read it again, then decide.";
}

bool is_too_much_to_review(std::string_view reason) {
  return reason == "reviewed_stream" || reason == "too_large_to_review";
}

std::string for_much_to_review(std::string_view tool) {
  std::string advice = "A human reviews this, and must see all of it: " + std::to_string(kMostReviewedText) +
                       " bytes of text at once are no problem. ";
  if (tool == "exec") return advice + "Write what is long into a file first, in several parts, and run that.";
  if (tool == "write") return advice + "Write less: a first part, and then more of it with edit.";
  return advice + "Do it in several calls.";
}

std::string for_reason(std::string_view reason, Value details, std::string_view tool) {
  if (reason == "not_found") return "Read that part of the file again and copy old_string exactly, with its spaces.";
  if (reason == "not_unique") return "Nothing was changed.";
  if (reason == "stale") return for_stale(details);
  if (reason == "changed") return "The file changed meanwhile: call again.";
  if (reason == "not_regular")
    return "It is a FIFO, a socket or a device (see stat), which the file tools leave alone.";
  if (reason == "root") return "Name something in the directory; the directory itself stays.";
  if (reason == "protected") return "It is protected in this sandbox. Do not try other ways; tell the user.";
  if (reason == "no_sandbox") return "No tool works until the user has mended this: tell them, and do not try again.";
  if (is_too_much_to_review(reason)) return for_much_to_review(tool);
  if (reason == "no_parent") return "Set create_dirs to have it made, or find the right path with glob or list.";
  if (reason == "exists" && details.get("replaceable").as_bool() == false)
    return "Choose another name, or remove what is there first if it may go; overwrite does not replace it.";
  if (reason == "exists") return "Choose another name, or set overwrite if it may be replaced.";
  return "";
}

std::string for_code(Code code, std::string_view tool, std::string_view workspace) {
  switch (code) {
    case Code::invalid_params:
      return "Correct the arguments of " + std::string(tool) + " and call it again.";
    case Code::policy_denied:
      return "This sandbox does not allow it. Work below " + std::string(workspace) +
             "; if more is needed, ask the user instead of trying other ways.";
    case Code::approval_denied:
      return "A reviewer said no. Do not try again; ask the user how to go on.";
    case Code::approval_expired:
      return "Nobody answered in time. Ask the user whether to try again.";
    case Code::rate_limited:
      return "Wait a moment, then call again.";
    case Code::quota_exceeded:
      return "A quota is used up. Tell the user.";
    case Code::timeout:
      return "It took too long. Ask for less at once.";
    case Code::payload_too_large:
      return "It is too large for one call: split it into several edits.";
    case Code::unavailable:
      return "The sandbox ended while this was done; it may or may not have happened. Look, then call again: "
             "a new sandbox is made.";
    case Code::io_error:
      return tool == "exec" ? "Check its directory with list." : "";
    default:
      return "";
  }
}

}  // namespace

std::string explain(const Error& error, std::string_view tool, std::string_view workspace) {
  wire::Decoder decoder;
  const auto parsed = decoder.parse(error.details_json.empty() ? "{}" : error.details_json);
  const Value details = parsed ? parsed->root() : Value();
  const std::string_view reason = details.get("reason").as_string().value_or("");
  // Which way the bridge sent it is nothing to a model.
  std::string text = is_too_much_to_review(reason) ? "It is too much to be reviewed" : error.message;
  if (text.starts_with("params.")) text.erase(0, 7);  // for the caller of a tool there are none
  if (!text.empty() && text.back() != '.') text += '.';
  const std::string near = nearest(details);
  text += near;
  std::string next = for_reason(reason, details, tool);
  if (next.empty()) next = for_errno(details.get("errno").as_string().value_or(""), tool);
  if (next.empty()) next = for_code(error.code, tool, workspace);
  if (!next.empty()) text += (near.empty() ? " " : "\n") + next;
  return text;
}

std::string approval_text(std::string_view approval) {
  return "This call waits for a human's approval. They can see it with `sallyport approvals` and allow it with "
         "`sallyport approvals approve " +
         std::string(approval) + "`.";
}

}  // namespace sallyport::mcp
