#include "wire/handshake.h"

#include "wire/crypto.h"
#include "wire/frame.h"

namespace sallyport::wire {
namespace {

constexpr std::uint8_t kTag = 0x02;
constexpr std::uint8_t kHello = 0x01, kChallenge = 0x02, kProof = 0x03;
constexpr std::size_t kHelloBytes = 3 + kNonceBytes;
constexpr std::size_t kChallengeBytes = 3 + kNonceBytes + kMacBytes;
constexpr std::size_t kProofBytes = 2 + kMacBytes;
constexpr std::string_view kServerLabel = "sallyport server";
constexpr std::string_view kClientLabel = "sallyport client";

Error refused(const char* why) { return Error::make(Code::unauthenticated, "handshake refused", why); }

void append_be64(Bytes& out, std::uint64_t value) {
  std::uint8_t* to = out.extend(8);
  store_be32(to, static_cast<std::uint32_t>(value >> 32));
  store_be32(to + 4, static_cast<std::uint32_t>(value));
}

// Variable-length parts carry their length, so that no two different inputs read the same.
void append_text(Bytes& out, std::string_view text) {
  out.push_back(static_cast<char>(text.size() >> 8));
  out.push_back(static_cast<char>(text.size()));
  out.append(text);
}

std::array<std::uint8_t, kMacBytes> mac(const Token& token, std::string_view label, const Bytes& transcript,
                                        ByteView nonce, const Binding& binding) {
  Bytes input;
  input.append(label);
  input.append(transcript.view());
  input.append(nonce);
  append_text(input, binding.address);
  append_text(input, binding.boot_id);
  append_be64(input, binding.pid);
  append_be64(input, binding.start_time);
  return hmac_sha256(token, input.view());
}

Status check_shape(ByteView body, std::uint8_t kind, std::size_t size) {
  if (body.size() != size || body[0] != kTag || body[1] != kind) return refused("unexpected handshake frame");
  if (kind != kProof && body[2] != kHandshakeVersion) return refused("unknown handshake version");
  return ok();
}

}  // namespace

Status HandshakeServer::receive(ByteView body, Bytes& out) {
  if (is_done_) return refused("handshake frame after the handshake");
  if (transcript_.empty()) {
    TRY(check_shape(body, kHello, kHelloBytes));
    transcript_.append(body);
    const auto proof = mac(token_, kServerLabel, transcript_, nonce_, binding_);
    Bytes challenge;
    challenge.push_back(kTag);
    challenge.push_back(kChallenge);
    challenge.push_back(kHandshakeVersion);
    challenge.append(nonce_);
    challenge.append(proof);
    transcript_.append(challenge.view());
    return append_frame(out, challenge.view());
  }
  TRY(check_shape(body, kProof, kProofBytes));
  const ByteView nonce_c = transcript_.view().subspan(3, kNonceBytes);
  const auto expected = mac(token_, kClientLabel, transcript_, nonce_c, binding_);
  if (!constant_time_equal(body.subspan(2), expected)) return refused("wrong proof");
  is_done_ = true;
  return ok();
}

void HandshakeClient::start(Bytes& out) {
  transcript_.clear();
  transcript_.push_back(kTag);
  transcript_.push_back(kHello);
  transcript_.push_back(kHandshakeVersion);
  transcript_.append(nonce_);
  // Far below the cap.
  [[maybe_unused]] const Status appended = append_frame(out, transcript_.view());
}

Status HandshakeClient::receive(ByteView body, Bytes& out) {
  TRY(check_shape(body, kChallenge, kChallengeBytes));
  const ByteView nonce_s = body.subspan(3, kNonceBytes);
  const auto expected = mac(token_, kServerLabel, transcript_, nonce_s, binding_);
  if (!constant_time_equal(body.subspan(3 + kNonceBytes), expected)) {
    return refused("the server does not hold the token");
  }
  transcript_.append(body);
  const auto proof = mac(token_, kClientLabel, transcript_, nonce_, binding_);
  Bytes answer;
  answer.push_back(kTag);
  answer.push_back(kProof);
  answer.append(proof);
  return append_frame(out, answer.view());
}

}  // namespace sallyport::wire
