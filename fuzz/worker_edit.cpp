// The edit engine: outside its matches every byte is the byte it was, several edits are one after the other or none,
// and the diff never fails.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/bytes.h"
#include "worker/diff.h"
#include "worker/edit.h"
#include "worker/text.h"

namespace {

using namespace sallyport;
using namespace sallyport::worker;

void demand(bool holds) {
  if (!holds) std::abort();
}

std::string with_crlf(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n' && (i == 0 || text[i - 1] != '\r')) out += '\r';
    out += text[i];
  }
  return out;
}

// Whether `after` is `before` with each match replaced, from left to right, and with nothing else changed. The match is
// the text as given, or, where that does not occur, the text with CRLF line ends. A replacement within a line has the
// file's line ends, where those are CRLF throughout.
void check_one(std::string_view before, const Edit& edit, const Edited& edited) {
  const bool is_as_given = before.find(edit.old_text) != std::string_view::npos;
  const std::string old_text = is_as_given ? edit.old_text : with_crlf(edit.old_text);
  const bool is_within_line = edit.old_text.find('\n') == std::string::npos;
  const bool is_crlf = before.find('\n') != std::string_view::npos && with_crlf(before) == before;
  const std::string new_text = is_as_given && !(is_within_line && is_crlf) ? edit.new_text : with_crlf(edit.new_text);
  std::string_view after = edited.content;
  const auto expect = [&](std::string_view part) {
    demand(after.starts_with(part));
    after.remove_prefix(part.size());
  };
  std::size_t count = 0;
  for (std::size_t at = before.find(old_text); at != std::string_view::npos; at = before.find(old_text)) {
    expect(before.substr(0, at));
    expect(new_text);
    before.remove_prefix(at + old_text.size());
    ++count;
  }
  demand(after == before);
  demand(count == edited.replacements && count >= 1 && (edit.replace_all || count == 1));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Per edit [flags][length of old][length of new] old new; bit 1 of the flags: another edit follows. Then the content.
  std::string_view input = as_text({data, size});
  const auto take = [&](std::size_t count) {
    const std::string_view part = input.substr(0, count);
    input.remove_prefix(part.size());
    return part;
  };
  std::vector<Edit> edits;
  for (bool has_more = true; has_more && edits.size() < 8;) {
    const std::string_view header = take(3);
    if (header.size() < 3) return 0;
    Edit& edit = edits.emplace_back();
    edit.replace_all = (header[0] & 1) != 0;
    has_more = (header[0] & 2) != 0;
    edit.old_text = take(static_cast<unsigned char>(header[1]) % 16);
    edit.new_text = take(static_cast<unsigned char>(header[2]) % 16);
  }
  const std::string content(input);

  // One by one, each judged by what it left.
  std::string expected = content;
  std::size_t replacements = 0;
  const Error* refused = nullptr;
  Result<Edited> last = Edited{};
  for (const Edit& edit : edits) {
    last = apply_edits(expected, {&edit, 1});
    if (!last) {
      refused = &last.error();
      break;
    }
    check_one(expected, edit, *last);
    expected = last->content;
    replacements += last->replacements;
  }

  // All at once: the same, or the first refusal and nothing else.
  const auto edited = apply_edits(content, edits);
  if (refused != nullptr) {
    demand(!edited && edited.error().code == refused->code && refused->code != Code::internal_error);
    return 0;
  }
  demand(edited.has_value() && edited->content == expected && edited->replacements == replacements);
  demand(is_utf8(unified_diff("f", content, edited->content).text));
  return 0;
}
