// The edit engine: bytes outside the match are the bytes they were, and the diff never fails.
#include <cstdlib>

#include "base/bytes.h"
#include "worker/diff.h"
#include "worker/edit.h"
#include "worker/text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sallyport;
  using namespace sallyport::worker;
  const auto demand = [](bool holds) {
    if (!holds) std::abort();
  };
  // [flags][length of old][length of new] old new content
  if (size < 3) return 0;
  std::string_view input = as_text({data + 3, size - 3});
  const auto take = [&](std::size_t count) {
    const std::string_view part = input.substr(0, count);
    input.remove_prefix(part.size());
    return part;
  };
  Edit edit;
  edit.replace_all = (data[0] & 1) != 0;
  edit.old_text = take(data[1] % 16);
  edit.new_text = take(data[2] % 16);
  const std::string content(input);

  const auto edited = apply_edits(content, {&edit, 1});
  if (!edited) {
    demand(edited.error().code != Code::internal_error);
    return 0;
  }
  demand(edited->replacements >= 1 && (edit.replace_all || edited->replacements == 1));
  // What is in front of the first match and behind the last one is unchanged. The match is the text as
  // given, or the text with CRLF line ends.
  std::string crlf;
  for (std::size_t i = 0; i < edit.old_text.size(); ++i) {
    if (edit.old_text[i] == '\n' && (i == 0 || edit.old_text[i - 1] != '\r')) crlf += '\r';
    crlf += edit.old_text[i];
  }
  const std::string& matched = content.find(edit.old_text) != std::string::npos ? edit.old_text : crlf;
  const std::size_t first = content.find(matched);
  demand(first != std::string::npos);
  demand(edited->content.substr(0, first) == content.substr(0, first));
  if (!edit.replace_all) {
    const std::string tail = content.substr(first + matched.size());
    demand(edited->content.ends_with(tail));
    demand(edited->content.size() >= first + tail.size());
  }
  demand(is_utf8(unified_diff("f", content, edited->content).text));
  return 0;
}
