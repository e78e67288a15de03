// What is to be known of an RE2 expression before it is compiled. No I/O; what RE2 will refuse is read somehow.
#pragma once

#include <string>
#include <string_view>

namespace sallyport::worker {

struct Expression {
  std::string text;              // with `$` standing before a CRLF too, whose '\r' is otherwise a character like others
  bool wants_newline = false;    // one stands in it, however it is written; one that a set excludes is none
  bool has_text_anchor = false;  // \A, \z, or `^` and `$` without the flag m: the text is the line
};

Expression read_expression(std::string_view regex);

}  // namespace sallyport::worker
