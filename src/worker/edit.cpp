#include "worker/edit.h"

#include <cstring>
#include <vector>

#include "wire/json.h"
#include "worker/limits.h"
#include "worker/nearest.h"
#include "worker/text.h"

namespace sallyport::worker {
namespace {

// memmem is linear in the worst case, which std::string::find is not.
std::size_t find_text(std::string_view text, std::string_view wanted, std::size_t from = 0) {
  if (from > text.size()) return std::string_view::npos;
  const void* found = ::memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  return found == nullptr ? std::string_view::npos
                          : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

std::string with_crlf(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n' && (i == 0 || text[i - 1] != '\r')) out += '\r';
    out += text[i];
  }
  return out;
}

std::string numbered(std::string_view what, std::size_t index, bool is_only) {
  return is_only ? std::string(what) : "edits[" + std::to_string(index) + "]: " + std::string(what);
}

// Every line feed of it stands behind a carriage return, and there is one.
bool has_crlf_only(std::string_view text) {
  std::size_t at = text.find('\n');
  if (at == std::string_view::npos) return false;
  for (; at != std::string_view::npos; at = text.find('\n', at + 1)) {
    if (at == 0 || text[at - 1] != '\r') return false;
  }
  return true;
}

Error not_found(std::string_view content, std::string_view old_text, std::size_t index, bool is_only) {
  Error error = Error::make(Code::not_found, numbered("old_string was not found in the file", index, is_only));
  const Nearest nearest = nearest_lines(content, old_text);
  error.details_json = wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object().member("reason", "not_found").member("edit", index).key("nearest").begin_array();
    for (const NearLine& line : nearest.lines) {
      json.begin_object().member("line", line.number).member("text", line.text);
      if (line.first != line.number) json.member("first_line", line.first);
      if (!line.differs_in.empty()) json.member("differs_in", line.differs_in);
      json.end_object();
    }
    json.end_array();
    if (nearest.is_cut) json.member("compared_lines", kMaxLinesCompared);
    json.end_object();
  });
  if (!nearest.lines.empty()) {
    const NearLine& best = nearest.lines.front();
    error.message += "; the nearest line is " + std::to_string(best.number);
    if (!best.differs_in.empty()) error.message += ", which differs in " + std::string(best.differs_in);
  }
  if (nearest.is_cut) error.message += " (of the first " + std::to_string(kMaxLinesCompared) + ")";
  return error;
}

// Calls `visit` with the position of each occurrence that replace_all would replace, and answers how many there are.
template <typename Visit>
Result<std::size_t> for_each(std::string_view content, std::string_view old_text, const Stop& stop, Visit visit) {
  std::size_t count = 0;
  for (std::size_t at = find_text(content, old_text); at != std::string_view::npos;
       at = find_text(content, old_text, at + old_text.size())) {
    if (++count % 4096 == 0) TRY(stop.check());
    visit(at);
  }
  return count;
}

Error not_unique(std::string_view content, std::string_view old_text, std::size_t index, bool is_only,
                 const Stop& stop) {
  std::size_t shown = 0;
  std::size_t line = 1;
  std::size_t counted_to = 0;
  std::string lines;
  const auto counted = for_each(content, old_text, stop, [&](std::size_t at) {
    if (++shown > kMaxLineNumbers) return;
    line += count_newlines(content.substr(counted_to, at - counted_to));
    counted_to = at;
    lines += (lines.empty() ? "" : ",") + std::to_string(line);
  });
  if (!counted) return counted.error();
  const std::size_t count = *counted;
  const std::string what = count == 1
                               ? "old_string overlaps itself: it fits at more than one place (line " + lines + ")"
                               : "old_string occurs " + std::to_string(count) + " times (lines " + lines +
                                     (count > kMaxLineNumbers ? ", ..." : "") + ")";
  Error error =
      Error::make(Code::conflict, numbered(what + ": add surrounding text, or set replace_all", index, is_only));
  error.details_json = "{\"reason\":\"not_unique\",\"edit\":" + std::to_string(index) +
                       ",\"count\":" + std::to_string(count) + ",\"lines\":[" + lines + "]" +
                       (count == 1 ? ",\"overlapping\":true}" : "}");
  return error;
}

// What is to be done, and the size of what it makes: known before anything is built.
struct Replacement {
  std::string_view old_text;
  std::string_view new_text;
  std::size_t count;

  bool fits(std::size_t size) const {
    const std::uint64_t kept = size - count * old_text.size();
    return new_text.empty() || (kMaxEditBytes >= kept && count <= (kMaxEditBytes - kept) / new_text.size());
  }
};

Status replace(std::string& content, const Replacement& wanted, const Stop& stop) {
  std::string out;
  out.reserve(content.size() - wanted.count * wanted.old_text.size() + wanted.count * wanted.new_text.size());
  std::size_t from = 0;
  TRY(for_each(content, wanted.old_text, stop, [&](std::size_t at) {
    out.append(content, from, at - from).append(wanted.new_text);
    from = at + wanted.old_text.size();
  }));
  out.append(content, from);
  content = std::move(out);
  return ok();
}

}  // namespace

Result<Edited> apply_edits(std::string_view content, std::span<const Edit> edits, const Stop& stop) {
  Edited edited{std::string(content), 0};
  const bool is_only = edits.size() == 1;
  for (std::size_t i = 0; i < edits.size(); ++i) {
    TRY(stop.check());
    const Edit& edit = edits[i];
    if (edit.old_text.empty())
      return Error::invalid_param("params.old_string", numbered("must not be empty", i, is_only));
    if (edit.old_text == edit.new_text) {
      return Error::invalid_param("params.new_string", numbered("is the same as old_string", i, is_only));
    }
    std::string old_text = edit.old_text;
    std::string new_text = edit.new_text;
    std::size_t first = find_text(edited.content, old_text);
    if (first == std::string::npos && edited.content.find("\r\n") != std::string::npos) {
      old_text = with_crlf(old_text);
      new_text = with_crlf(new_text);
      first = find_text(edited.content, old_text);
    } else if (old_text.find('\n') == std::string::npos && new_text.find('\n') != std::string::npos &&
               has_crlf_only(edited.content)) {
      new_text = with_crlf(new_text);
    }
    if (first == std::string::npos) return not_found(edited.content, edit.old_text, i, is_only);
    if (!edit.replace_all && find_text(edited.content, old_text, first + 1) != std::string::npos) {
      return not_unique(edited.content, old_text, i, is_only, stop);
    }
    Replacement wanted{old_text, new_text, 1};
    if (edit.replace_all) {
      TRY(wanted.count, for_each(edited.content, old_text, stop, [](std::size_t) {}));
    }
    if (!wanted.fits(edited.content.size())) {
      return Error::make(Code::payload_too_large,
                         numbered("the edited file would have more than " + std::to_string(kMaxEditBytes) +
                                      " bytes, which is the most that can be edited",
                                  i, is_only));
    }
    TRY(replace(edited.content, wanted, stop));
    edited.replacements += wanted.count;
  }
  return edited;
}

}  // namespace sallyport::worker
