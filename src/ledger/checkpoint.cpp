#include "ledger/checkpoint.h"

#include <algorithm>

namespace sallyport::ledger {
namespace {

std::string statement_of(const Checkpoint& checkpoint) {
  return "sallyport checkpoint 1\n" + std::to_string(checkpoint.seq) + "\n" + std::to_string(checkpoint.time_ms) +
         "\n" + to_hex(checkpoint.hash) + "\n";
}

template <typename Array>
bool read_hex(wire::Value value, Array& to) {
  const auto bytes = from_hex(value.as_string().value_or(""));
  if (!bytes || bytes->size() != to.size()) return false;
  std::copy(bytes->begin(), bytes->end(), to.begin());
  return true;
}

}  // namespace

bool Checkpoint::is_genuine() const { return is_signed_by(key, as_bytes(statement_of(*this)), signature); }

Checkpoint sign_checkpoint(const SigningKey& key, std::uint64_t seq, const Digest& hash, std::int64_t time_ms) {
  Checkpoint checkpoint{.seq = seq, .time_ms = time_ms, .hash = hash, .key = key.public_key(), .signature = {}};
  checkpoint.signature = key.sign(as_bytes(statement_of(checkpoint)));
  return checkpoint;
}

std::string to_json(const Checkpoint& checkpoint) {
  return wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object()
        .member("sallyport_checkpoint", 1)
        .member("seq", checkpoint.seq)
        .member("time_ms", checkpoint.time_ms)
        .member("hash", to_hex(checkpoint.hash))
        .member("key", to_hex(checkpoint.key))
        .member("signature", to_hex(checkpoint.signature))
        .end_object();
  });
}

Result<Checkpoint> parse_checkpoint(std::string_view json) {
  wire::Decoder decoder;
  TRY(const wire::Document document, decoder.parse(json));
  return read_checkpoint(document.root());
}

Result<Checkpoint> read_checkpoint(wire::Value object) {
  Checkpoint checkpoint;
  const auto seq = object.get("seq").as_uint();
  const auto time = object.get("time_ms").as_int();
  if (object.get("sallyport_checkpoint").as_int() != 1 || !seq || !time ||
      !read_hex(object.get("hash"), checkpoint.hash) || !read_hex(object.get("key"), checkpoint.key) ||
      !read_hex(object.get("signature"), checkpoint.signature)) {
    return Error::make(Code::invalid_params, "not an audit checkpoint");
  }
  checkpoint.seq = *seq;
  checkpoint.time_ms = *time;
  if (!checkpoint.is_genuine()) {
    return Error::make(Code::invalid_params, "the checkpoint's signature does not fit: it was changed");
  }
  return checkpoint;
}

}  // namespace sallyport::ledger
