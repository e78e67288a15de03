// The mutual proof that opens a loopback TCP connection. No I/O: bodies in, bodies out.
//
//   client: HELLO      [02 01 version nonce_c32]
//   server: CHALLENGE  [02 02 version nonce_s32 mac32]
//   client: PROOF      [02 03 mac32]
//
// Each mac is HMAC-SHA-256 under the shared 32-byte token of: the label, all earlier bodies, the own
// nonce, and the Binding. The token never crosses the wire, so whoever sits on a dead daemon's port
// learns nothing and cannot answer; a proof is worth nothing on another address, boot or process.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "wire/limits.h"

namespace sallyport::wire {

using Token = std::array<std::uint8_t, kTokenBytes>;
using Nonce = std::array<std::uint8_t, kNonceBytes>;

// What both sides must agree on besides the token.
struct Binding {
  std::string address;  // "127.0.0.1:54213", as bound by the server
  std::string boot_id;
  std::uint64_t pid = 0;         // of the server
  std::uint64_t start_time = 0;  // of that process, in clock ticks since boot
};

constexpr std::size_t kHelloBytes = 3 + kNonceBytes;
constexpr std::size_t kChallengeBytes = 3 + kNonceBytes + kMacBytes;
constexpr std::size_t kProofBytes = 2 + kMacBytes;

// The server's side, of one connection after the other. Allocates nothing, if `out` has room for a challenge.
class HandshakeServer {
 public:
  HandshakeServer(const Token& token, Binding binding, const Nonce& nonce)
      : token_(token), binding_(std::move(binding)), nonce_(nonce) {}

  // For the next connection, with a nonce of its own.
  void restart(const Nonce& nonce);

  // Feed one body. Appends a CHALLENGE frame to out after HELLO, and nothing else; is_done() after a valid PROOF.
  // False: refused, which is final: close without saying more than `UNAUTHENTICATED`.
  [[nodiscard]] bool receive(ByteView body, Bytes& out);
  bool is_done() const { return is_done_; }
  bool is_greeted() const { return is_greeted_; }
  std::string_view why_refused() const { return why_refused_; }

 private:
  bool refuse(std::string_view why);

  Token token_;
  Binding binding_;
  Nonce nonce_;
  std::array<std::uint8_t, kHelloBytes + kChallengeBytes> transcript_{};
  std::string_view why_refused_;
  bool is_greeted_ = false;
  bool is_done_ = false;
};

// The client's side.
class HandshakeClient {
 public:
  HandshakeClient(const Token& token, Binding binding, const Nonce& nonce)
      : token_(token), binding_(std::move(binding)), nonce_(nonce) {}

  void start(Bytes& out);  // appends HELLO
  // Checks the CHALLENGE and appends PROOF. An error means that the server does not know the token:
  // nothing more may be sent to it.
  Status receive(ByteView body, Bytes& out);

 private:
  Token token_;
  Binding binding_;
  Nonce nonce_;
  Bytes transcript_;
};

}  // namespace sallyport::wire
