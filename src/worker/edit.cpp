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

Error not_found(std::string_view content, const Edit& edit, std::size_t index, bool is_only) {
  Error error = Error::make(Code::not_found, numbered("old_string was not found in the file", index, is_only));
  const auto nearest = nearest_lines(content, edit.old_text);
  error.details_json = wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object().member("reason", "not_found").member("edit", index).key("nearest").begin_array();
    for (const NearLine& line : nearest) {
      json.begin_object().member("line", line.number).member("text", line.text);
      if (line.differs_in_space) json.member("differs_in", "whitespace");
      json.end_object();
    }
    json.end_array().end_object();
  });
  if (!nearest.empty()) error.message += "; the nearest line is " + std::to_string(nearest.front().number);
  return error;
}

Error not_unique(std::string_view content, std::string_view old_text, std::size_t index, bool is_only) {
  std::size_t count = 0;
  std::size_t line = 1;
  std::size_t counted_to = 0;
  std::string lines;
  for (std::size_t at = find_text(content, old_text); at != std::string_view::npos && count < kMaxOccurrences;
       at = find_text(content, old_text, at + 1)) {
    line += count_newlines(content.substr(counted_to, at - counted_to));
    counted_to = at;
    if (++count <= kMaxLineNumbers) lines += (lines.empty() ? "" : ",") + std::to_string(line);
  }
  Error error = Error::make(
      Code::conflict,
      numbered("old_string occurs " + std::string(count == kMaxOccurrences ? "at least " : "") + std::to_string(count) +
                   " times (lines " + lines + "): add surrounding text, or set replace_all",
               index, is_only));
  error.details_json = "{\"reason\":\"not_unique\",\"edit\":" + std::to_string(index) +
                       ",\"count\":" + std::to_string(count) + ",\"lines\":[" + lines + "]}";
  return error;
}

std::size_t replace_all(std::string& content, std::string_view old_text, std::string_view new_text) {
  std::string out;
  std::size_t from = 0;
  std::size_t count = 0;
  for (std::size_t at = find_text(content, old_text); at != std::string::npos;
       at = find_text(content, old_text, from)) {
    out.append(content, from, at - from).append(new_text);
    from = at + old_text.size();
    ++count;
  }
  out.append(content, from);
  content = std::move(out);
  return count;
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
    }
    if (first == std::string::npos) return not_found(edited.content, edit, i, is_only);
    if (!edit.replace_all && find_text(edited.content, old_text, first + 1) != std::string::npos) {
      return not_unique(edited.content, old_text, i, is_only);
    }
    if (edit.replace_all) {
      edited.replacements += replace_all(edited.content, old_text, new_text);
    } else {
      edited.content.replace(first, old_text.size(), new_text);
      ++edited.replacements;
    }
    if (edited.content.size() > kMaxEditBytes) {
      return Error::make(Code::payload_too_large, numbered("the edited file would be too large", i, is_only));
    }
  }
  return edited;
}

}  // namespace sallyport::worker
