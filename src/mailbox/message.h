// A message as it lies in a mailbox: strict JSON with a closed set of keys. No I/O.
//
//   {"signal":"context_reset"}
//   {"signal":"schedule_task","request_id":"<lower-case uuid>","payload":{...}}
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "base/base.h"
#include "mailbox/signal.h"
#include "wire/json.h"

namespace sallyport::mailbox {

struct Message {
  std::string signal;
  std::string request_id;  // empty: it has none
  wire::Value payload;     // an object, or absent; lives as long as the document
  wire::Document document;
};

// Why a file is no message, and the id to answer to if it has a usable one.
struct Malformed {
  std::string request_id;
  Error error;
};

std::variant<Message, Malformed> parse_message(wire::Decoder& decoder, ByteView content);

// Whether it carries what its signal takes: nothing beside the name, or an id and a payload that fits.
Status check_shape(const Signal& signal, std::string_view request_id, wire::Value payload);

// 8-4-4-4-12 hexadecimal digits, lower case: it becomes a file's name.
bool is_request_id(std::string_view text);
bool is_signal_name(std::string_view text);  // a-z, 0-9 and _, beginning with a letter
std::string make_request_id();

}  // namespace sallyport::mailbox
