#include <algorithm>
#include <array>
#include <bit>

#include "wire/json_reader.h"
#include "wire/message.h"

namespace sallyport::wire {
namespace {

// Printable ASCII: names go into logs, file names and tables as they are.
bool is_name(std::string_view text, std::size_t most) {
  if (text.empty() || text.size() > most) return false;
  for (const char c : text) {
    if (c <= ' ' || c > '~') return false;
  }
  return true;
}

// Reads the one object that a message is straight into its fields. Whatever is wrong with a field, the rest is read
// too: the text must be JSON in any case, and the id may come last.
class MessageReader : private JsonReader {
 public:
  MessageReader(std::string_view text, Message& message, Keep keep)
      : JsonReader(text, message.document, &message.streams), message_(message), keep_(keep) {}

  // What is wrong with it as JSON, or null.
  const char* read() {
    const bool has_head = read_usual_head();
    if (has_head && !read_usual_member()) return problem_;
    skip_space();
    if (!has_head && !skip('{')) {
      fault_ = Error::make(Code::protocol_error, "a message is a JSON object");
      return JsonReader::read();
    }
    skip_space();
    if (has_head ? skip(',') : next() != '}') {
      do {
        skip_space();
        if (!member()) return problem_;
        skip_space();
      } while (skip(','));
    }
    return skip('}') ? finish() : "an object is not closed";
  }

  // What is wrong with it as a message. Afterwards its values are in place.
  Status settle() {
    if (fault_) return *fault_;
    if (params_ != kNowhere) message_.params = value_at(params_);
    if (result_ != kNowhere) message_.result = value_at(result_);
    if (error_ != kNowhere) message_.error = ErrorBox(read_error(value_at(error_)));
    if (!has_type_) return invalid("type is missing");
    if (const unsigned strange = seen_ & ~kBelong.at(static_cast<std::size_t>(message_.type)); strange != 0) {
      const Field& first = kFields.at(static_cast<std::size_t>(std::countr_zero(strange)));
      return invalid(std::string(first.name) + " does not belong in this type of message");
    }
    return check_required();
  }

 private:
  static constexpr std::size_t kNowhere = SIZE_MAX;

  // The closed set of top-level fields, and which types of message may carry each.
  struct Field {
    std::string_view name;
    bool (MessageReader::*read)();
    bool in_request, in_response, in_event;
  };
  static const std::array<Field, 8> kFields;
  static const std::array<unsigned, 3> kBelong;  // for each type of message a bit for each field
  static constexpr unsigned kId = 1U << 0, kType = 1U << 1, kMethod = 1U << 2, kResult = 1U << 4, kDeadline = 1U << 6;

  static std::size_t field_of(std::string_view name);

  // The first members as we write them ourselves, which is how nearly all come; false if they look any other way, and
  // nothing is read then.
  bool read_usual_head() {
    const char* const at = at_;
    char* const to = to_;
    if (skip(R"({"id":")") && read_plain_name(message_.id, kMaxIdBytes)) {
      if (skip(R"(,"type":"response")")) {
        message_.type = MessageType::response;
        return has_read(kId | kType);
      }
      if (skip(R"(,"type":"request","method":")") && read_plain_name(message_.method, kMaxMethodBytes)) {
        message_.type = MessageType::request;
        return has_read(kId | kType | kMethod);
      }
    }
    message_.id = message_.method = {};
    at_ = at;
    to_ = to;
    return false;
  }
  bool has_read(unsigned fields) {
    seen_ = fields;
    has_type_ = true;
    return true;
  }
  // What mostly comes next, if it does.
  bool read_usual_member() {
    if (message_.type == MessageType::response) {
      if (!skip(R"(,"result":)")) return true;
      seen_ |= kResult;
      return read_result();
    }
    if (!skip(R"(,"deadline_ms":)")) return true;
    seen_ |= kDeadline;
    return read_deadline();
  }
  // The rest of a text that is a name without escapes, and its closing quote.
  bool read_plain_name(std::string_view& into, std::size_t most) {
    char* const begin = to_;
#if defined(__SSE2__)
    for (std::size_t count = 16; count == 16 && end_ - at_ >= 16; at_ += count, to_ += count) {
      copy_16(at_, to_);
      count = static_cast<std::size_t>(std::countr_zero(unnamed_16(load_16(at_)) | 0x10000U));
    }
#endif
    while (at_ < end_ && *at_ > ' ' && *at_ <= '~' && *at_ != '"' && *at_ != '\\') *to_++ = *at_++;
    into = {begin, to_};
    return !into.empty() && into.size() <= most && skip('"');
  }

  static Error invalid(std::string message) { return Error::make(Code::invalid_request, std::move(message)); }
  void refuse(const char* why) {
    if (!fault_) fault_ = invalid(why);
  }

  bool member() {
    std::string_view read;
    if (!name(read)) return false;
    const std::size_t i = field_of(read);
    if (!skip_colon()) return false;
    skip_space();
    if (i == kFields.size()) {
      refuse("unknown field in the message");
      return value(1);
    }
    if ((seen_ & (1U << i)) != 0) return fail("duplicate key");
    seen_ |= 1U << i;
    return (this->*kFields.at(i).read)();
  }

  // A text of this one member; absent if it is none.
  bool read_text(std::optional<std::string_view>& read) {
    if (next() != '"') return value(1);
    char* const begin = to_;
    if (!text<true>()) return false;
    read = {begin, to_};
    return true;
  }
  bool read_name(std::string_view& into, std::size_t most, const char* otherwise) {
    std::optional<std::string_view> read;
    if (!read_text(read)) return false;
    if (read && is_name(*read, most)) {
      into = *read;
    } else {
      refuse(otherwise);
    }
    return true;
  }

  bool read_id() {
    // A response to what could not be read carries a null id.
    if (next() == 'n') return value(1);
    return read_name(message_.id, kMaxIdBytes, "id must be a string of 1 to 128 printable characters");
  }
  bool read_type() {
    std::optional<std::string_view> read;
    if (!read_text(read)) return false;
    has_type_ = true;
    if (read == "request") {
      message_.type = MessageType::request;
    } else if (read == "response") {
      message_.type = MessageType::response;
    } else if (read == "event") {
      message_.type = MessageType::event;
    } else {
      refuse("type must be request, response or event");
    }
    return true;
  }
  bool read_method() {
    return read_name(message_.method, kMaxMethodBytes, "method must be a string of 1 to 128 printable characters");
  }
  bool read_token() {
    return read_name(message_.token, kMaxTokenBytes, "token must be a string of printable characters");
  }
  bool read_params() {
    if (next() != '{') refuse("params must be an object");
    params_ = words_.size();
    return value(1);
  }
  bool read_result() {
    result_ = words_.size();
    return keep_ == Keep::result ? kept() : value(1);
  }
  bool read_error_member() {
    error_ = words_.size();
    return value(1);
  }
  bool read_deadline() {
    if (read_plain_deadline()) return true;
    const std::size_t index = words_.size();
    if (!value(1)) return false;
    const auto number = value_at(index).as_int();
    if (number && *number >= 1 && *number <= kMaxDeadlineMs) {
      message_.deadline_ms = static_cast<std::uint32_t>(*number);
    } else {
      static_assert(kMaxDeadlineMs == 86'400'000);
      refuse("deadline_ms must be an integer from 1 to 86400000");
    }
    return true;
  }

  // One that is there as it always is: a few digits, and then the next member or the end.
  bool read_plain_deadline() {
    constexpr int kMostDigits = 8;
    const char* const last = at_ + std::min<std::ptrdiff_t>(end_ - at_, kMostDigits + 1) - 1;
    const char* at = at_;
    std::uint32_t number = 0;
    for (; at < last && *at >= '0' && *at <= '9'; ++at) number = number * 10 + static_cast<std::uint32_t>(*at - '0');
    const bool is_plain = number != 0 && *at_ != '0' && (*at == ',' || *at == '}') && number <= kMaxDeadlineMs;
    if (!is_plain) return false;
    message_.deadline_ms = number;
    at_ = at;
    return true;
  }

  Status check_required() const {
    switch (message_.type) {
      case MessageType::request:
        if (message_.id.empty()) return invalid("id is missing");
        if (message_.method.empty()) return invalid("method is missing");
        break;
      case MessageType::response:
        if (message_.result.exists() == static_cast<bool>(message_.error)) {
          return invalid("a response carries either a result or an error");
        }
        if (message_.id.empty() && !message_.error) return invalid("id is missing");
        break;
      case MessageType::event:
        if (message_.method.empty()) return invalid("method is missing");
        break;
    }
    return ok();
  }

  Message& message_;
  Keep keep_;
  unsigned seen_ = 0;  // a bit for each field
  bool has_type_ = false;
  std::size_t params_ = kNowhere, result_ = kNowhere, error_ = kNowhere;  // among the document's words
  std::optional<Error> fault_;                                            // the first one
};

constexpr std::array<MessageReader::Field, 8> MessageReader::kFields = {{
    {"id", &MessageReader::read_id, true, true, true},
    {"type", &MessageReader::read_type, true, true, true},
    {"method", &MessageReader::read_method, true, false, true},
    {"params", &MessageReader::read_params, true, false, true},
    {"result", &MessageReader::read_result, false, true, false},
    {"error", &MessageReader::read_error_member, false, true, false},
    {"deadline_ms", &MessageReader::read_deadline, true, false, false},
    {"token", &MessageReader::read_token, true, false, false},
}};

constexpr std::array<unsigned, 3> MessageReader::kBelong = [] {
  static_assert(static_cast<int>(MessageType::request) == 0 && static_cast<int>(MessageType::response) == 1 &&
                static_cast<int>(MessageType::event) == 2);
  std::array<unsigned, 3> belong{};
  for (std::size_t i = 0; i < kFields.size(); ++i) {
    const Field& field = kFields.at(i);
    if (field.in_request) belong[0] |= 1U << i;
    if (field.in_response) belong[1] |= 1U << i;
    if (field.in_event) belong[2] |= 1U << i;
  }
  return belong;
}();

// Its size and first letter say which one it can be.
std::size_t MessageReader::field_of(std::string_view name) {
  std::size_t i = kFields.size();
  switch (name.size()) {
    case 2:
      i = 0;
      break;
    case 4:
      i = 1;
      break;
    case 5:
      i = name[0] == 'e' ? 5 : 7;
      break;
    case 6:
      i = name[0] == 'm' ? 2 : name[0] == 'p' ? 3 : 4;
      break;
    case 11:
      i = 6;
      break;
    default:
      return i;
  }
  return kFields.at(i).name == name ? i : kFields.size();
}

}  // namespace

MessageResult decode_message(Decoder& decoder, ByteView body, Keep keep) {
  if (body.size() >= kMaxTextBytes) return Malformed{{}, Error::make(Code::payload_too_large, "too much JSON")};
  MessageResult result;
  Message& message = *result;
  message.bytes = body.size();
  message.document = decoder.make_room(body.size());
  MessageReader reader(as_text(body), message, keep);
  if (const char* problem = reader.read()) {
    decoder.recycle(std::move(message.document));
    return Malformed{{}, Error::make(Code::protocol_error, std::string("malformed JSON: ") + problem)};
  }
  // Whatever else is wrong, answer to the id if there is a usable one.
  if (Status status = reader.settle(); !status) return Malformed{std::string(message.id), std::move(status).error()};
  return result;
}

}  // namespace sallyport::wire
