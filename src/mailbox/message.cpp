#include "mailbox/message.h"

#include <algorithm>
#include <array>

#include "mailbox/limits.h"

namespace sallyport::mailbox {
namespace {

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

Error malformed(std::string problem) { return Error::make(Code::invalid_request, std::move(problem)); }

Status read_members(wire::Value root, Message& message) {
  bool has_signal = false;
  for (const auto& [key, value] : root.members()) {
    if (key == "signal") {
      const auto name = value.as_string();
      if (!name || !is_signal_name(*name)) return malformed("signal must be a name: a-z, 0-9 and _");
      message.signal = *name;
      has_signal = true;
    } else if (key == "request_id") {
      if (message.request_id.empty()) return malformed("request_id must be a UUID in lower case");
    } else if (key == "payload") {
      if (!value.is_object()) return malformed("payload must be an object");
      message.payload = value;
    } else {
      return malformed("unknown key; a message holds signal, request_id and payload");
    }
  }
  return has_signal ? ok() : malformed("signal is missing");
}

}  // namespace

bool is_request_id(std::string_view text) {
  if (text.size() != 36) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (is_dash ? text[i] != '-' : !is_hex(text[i])) return false;
  }
  return true;
}

bool is_signal_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxSignalBytes && text.front() >= 'a' && text.front() <= 'z' &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
}

std::string make_request_id() {
  std::array<std::uint8_t, 16> bytes{};
  fill_random(bytes);
  bytes[6] = static_cast<std::uint8_t>((bytes[6] & 0x0fU) | 0x40U);  // version 4: random
  bytes[8] = static_cast<std::uint8_t>((bytes[8] & 0x3fU) | 0x80U);
  std::string text = to_hex(bytes);
  for (const std::size_t dash : {8U, 13U, 18U, 23U}) text.insert(dash, 1, '-');
  return text;
}

std::variant<Message, Malformed> parse_message(wire::Decoder& decoder, ByteView content) {
  auto document = decoder.parse(content);
  if (!document) return Malformed{{}, malformed("not strict JSON: " + document.error().message)};
  const wire::Value root = document->root();
  if (!root.is_object()) return Malformed{{}, malformed("a message is a JSON object")};
  Message message;
  const auto id = root.get("request_id").as_string();
  if (id && is_request_id(*id)) message.request_id = *id;
  if (auto read = read_members(root, message); !read) return Malformed{message.request_id, std::move(read).error()};
  message.document = std::move(*document);
  return message;
}

Status check_shape(const Signal& signal, std::string_view request_id, wire::Value payload) {
  if (signal.tier == 1) {
    if (payload || !request_id.empty()) {
      return malformed(signal.name + " is a signal and nothing else: it takes no request_id and no payload");
    }
    return ok();
  }
  if (request_id.empty()) return malformed(signal.name + " needs a request_id");
  if (!payload) return malformed(signal.name + " needs a payload");
  if (payload.depth() > wire::kMaxKeptDepth) return malformed("the payload is nested too deep");
  if (auto fits = wire::check_params(signal.payload, payload); !fits) {
    Error error = std::move(fits).error();
    // The schema speaks of parameters; here they are the payload's members.
    for (std::string* text : {&error.message, &error.details_json}) {
      for (std::size_t at = 0; (at = text->find("params", at)) != std::string::npos; at += 7) {
        text->replace(at, 6, "payload");
      }
    }
    return error;
  }
  return ok();
}

}  // namespace sallyport::mailbox
