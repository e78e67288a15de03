#include "wire/handshake.h"

#include <algorithm>
#include <span>

#include "wire/crypto.h"
#include "wire/frame.h"

namespace sallyport::wire {
namespace {

constexpr std::uint8_t kTag = 0x02;
constexpr std::uint8_t kHello = 0x01, kChallenge = 0x02, kProof = 0x03;
constexpr std::string_view kServerLabel = "sallyport server";
constexpr std::string_view kClientLabel = "sallyport client";

// Variable-length parts carry their length, so that no two different inputs read the same.
void update_text(HmacSha256& mac, std::string_view text) {
  mac.update(std::array{static_cast<std::uint8_t>(text.size() >> 8), static_cast<std::uint8_t>(text.size())});
  mac.update(as_bytes(text));
}

void update_be64(HmacSha256& mac, std::uint64_t value) {
  std::array<std::uint8_t, 8> bytes;
  store_be32(bytes.data(), static_cast<std::uint32_t>(value >> 32));
  store_be32(bytes.data() + 4, static_cast<std::uint32_t>(value));
  mac.update(bytes);
}

Digest mac_of(const Token& token, std::string_view label, ByteView transcript, ByteView nonce, const Binding& binding) {
  HmacSha256 mac(token);
  mac.update(as_bytes(label));
  mac.update(transcript);
  mac.update(nonce);
  update_text(mac, binding.address);
  update_text(mac, binding.boot_id);
  update_be64(mac, binding.pid);
  update_be64(mac, binding.start_time);
  return mac.finish();
}

// Why a body is not of this kind, or nothing.
std::string_view misshapen(ByteView body, std::uint8_t kind, std::size_t size) {
  if (body.size() != size || body[0] != kTag || body[1] != kind) return "unexpected handshake frame";
  if (kind != kProof && body[2] != kHandshakeVersion) return "unknown handshake version";
  return {};
}

Error refused(std::string_view why) {
  return Error::make(Code::unauthenticated, "handshake refused", std::string(why));
}

}  // namespace

void HandshakeServer::restart(const Nonce& nonce) {
  nonce_ = nonce;
  why_refused_ = {};
  is_greeted_ = is_done_ = false;
}

bool HandshakeServer::refuse(std::string_view why) {
  why_refused_ = why;
  return false;
}

bool HandshakeServer::receive(ByteView body, Bytes& out) {
  if (is_done_) return refuse("handshake frame after the handshake");
  const std::string_view misfit =
      is_greeted_ ? misshapen(body, kProof, kProofBytes) : misshapen(body, kHello, kHelloBytes);
  if (!misfit.empty()) return refuse(misfit);
  const std::span transcript(transcript_);
  if (is_greeted_) {
    const ByteView nonce_c = transcript.subspan(3, kNonceBytes);
    const Digest expected = mac_of(token_, kClientLabel, transcript, nonce_c, binding_);
    is_done_ = constant_time_equal(body.subspan(2), expected);
    return is_done_ || refuse("wrong proof");
  }
  is_greeted_ = true;
  std::copy(body.begin(), body.end(), transcript.begin());
  const Digest proof = mac_of(token_, kServerLabel, body, nonce_, binding_);
  const std::span challenge = transcript.subspan(kHelloBytes);
  challenge[0] = kTag;
  challenge[1] = kChallenge;
  challenge[2] = kHandshakeVersion;
  std::copy(nonce_.begin(), nonce_.end(), challenge.begin() + 3);
  std::copy(proof.begin(), proof.end(), challenge.begin() + 3 + kNonceBytes);
  // Far below the cap.
  [[maybe_unused]] const Status appended = append_frame(out, challenge);
  return true;
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
  if (const std::string_view why = misshapen(body, kChallenge, kChallengeBytes); !why.empty()) return refused(why);
  const ByteView nonce_s = body.subspan(3, kNonceBytes);
  const Digest expected = mac_of(token_, kServerLabel, transcript_.view(), nonce_s, binding_);
  if (!constant_time_equal(body.subspan(3 + kNonceBytes), expected)) {
    return refused("the server does not hold the token");
  }
  transcript_.append(body);
  const Digest proof = mac_of(token_, kClientLabel, transcript_.view(), nonce_, binding_);
  Bytes answer;
  answer.push_back(kTag);
  answer.push_back(kProof);
  answer.append(proof);
  return append_frame(out, answer.view());
}

}  // namespace sallyport::wire
