// Messages: requests, responses and events, from and to frame bodies. No I/O.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "wire/frame.h"
#include "wire/json.h"

namespace sallyport::wire {

enum class MessageType : std::uint8_t { request, response, event };

// A decoded message. It owns its document, so it may outlive the frame and wait as long as it must.
struct Message {
  MessageType type = MessageType::request;
  std::string_view id;      // empty only for an event that belongs to no request
  std::string_view method;  // requests and events
  Value params;             // an object, or absent
  Value result;             // responses
  ErrorBox error;           // responses
  std::optional<std::uint32_t> deadline_ms;
  std::string_view token;
  std::vector<std::uint32_t> streams;  // every {"$stream":n} in params or result
  std::size_t bytes = 0;               // size of the body it came from
  Document document;
};

// Why a body is no message: the error to answer with, and the id to answer to if one could be read.
struct Malformed {
  std::string id;
  Error error;
};

class MessageResult {
 public:
  MessageResult() = default;
  MessageResult(Malformed malformed)  // NOLINT(*-explicit-*)
      : malformed_(std::make_unique<Malformed>(std::move(malformed))) {}
  explicit operator bool() const { return malformed_ == nullptr; }
  Message& operator*() { return message_; }
  Message* operator->() { return &message_; }
  const Malformed& malformed() const { return *malformed_; }

 private:
  Message message_;
  std::unique_ptr<Malformed> malformed_;
};

// With Keep::result a result that names no stream is kept as its text, for somebody who only passes it on.
enum class Keep : std::uint8_t { nothing, result };
MessageResult decode_message(Decoder& decoder, ByteView body, Keep keep = Keep::nothing);

// ---- Encoding. Each appends one whole frame, or returns PAYLOAD_TOO_LARGE and appends nothing. ----

struct RequestHead {
  std::string_view id;
  std::string_view method;
  std::optional<std::uint32_t> deadline_ms;
  std::string_view token;
};
// `params` is the JSON text of an object, or empty for none.
Status append_request(Bytes& out, const RequestHead& head, std::string_view params);
Status append_result(Bytes& out, std::string_view id, std::string_view result);
// An empty id is written as null: the answer to what could not be read. Always fits.
void append_error(Bytes& out, std::string_view id, const Error& error);
// An empty id is left out.
Status append_event(Bytes& out, std::string_view id, std::string_view method, std::string_view params);

// A response built in place, so that a large result is written once:
//
//   ResultFrame frame(out, id);
//   frame.json().begin_object()....end_object();
//   TRY(frame.finish());
class ResultFrame {
 public:
  ResultFrame(Bytes& out, std::string_view id);
  JsonWriter& json() { return writer_; }
  Status finish();

 private:
  FrameBuilder frame_;
  JsonWriter writer_;
};

// The object {"code","message","retryable","details"?} alone.
void write_error(JsonWriter& json, const Error& error);
// The reverse; INTERNAL_ERROR if it is none.
Error read_error(Value error);

}  // namespace sallyport::wire
