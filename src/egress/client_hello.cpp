#include "egress/client_hello.h"

#include "egress/limits.h"

namespace sallyport::egress {
namespace {

constexpr std::uint8_t kHandshakeRecord = 22;
constexpr std::uint8_t kClientHello = 1;
constexpr std::uint8_t kHostName = 0;
constexpr std::uint16_t kServerNameExtension = 0;
constexpr std::size_t kRecordHead = 5;

// Takes fields off the front; after the first that is not there, all are empty.
class Fields {
 public:
  explicit Fields(ByteView from) : rest_(from) {}

  ByteView take(std::size_t count) {
    if (!is_good_ || count > rest_.size()) {
      is_good_ = false;
      return {};
    }
    const ByteView taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  std::size_t number(std::size_t bytes) {
    std::size_t value = 0;
    for (const std::uint8_t byte : take(bytes)) value = value << 8 | byte;
    return value;
  }
  ByteView vector(std::size_t length_bytes) { return take(number(length_bytes)); }
  bool is_good() const { return is_good_; }
  bool is_empty() const { return rest_.empty(); }

 private:
  ByteView rest_;
  bool is_good_ = true;
};

ClientHello unreadable() { return {ClientHello::Kind::unreadable}; }

ClientHello read_server_name(ByteView extension) {
  Fields outer(extension);
  Fields list(outer.vector(2));
  if (!outer.is_good() || !outer.is_empty() || list.is_empty()) return unreadable();
  const std::size_t type = list.number(1);
  const ByteView name = list.vector(2);
  if (!list.is_good() || !list.is_empty() || type != kHostName || name.empty()) return unreadable();
  return {ClientHello::Kind::named, std::string(as_text(name))};
}

ClientHello read_extensions(ByteView bytes) {
  Fields extensions(bytes);
  ClientHello found{ClientHello::Kind::unnamed};
  while (!extensions.is_empty()) {
    const std::size_t type = extensions.number(2);
    const ByteView content = extensions.vector(2);
    if (!extensions.is_good()) return unreadable();
    if (type != kServerNameExtension) continue;
    if (found.kind != ClientHello::Kind::unnamed) return unreadable();
    found = read_server_name(content);
  }
  return found;
}

}  // namespace

ClientHello read_client_hello(ByteView bytes) {
  if (bytes.empty()) return {};
  if (bytes[0] != kHandshakeRecord) return {ClientHello::Kind::not_tls};
  if (bytes.size() >= 2 && bytes[1] != 3) return {ClientHello::Kind::not_tls};
  if (bytes.size() < kRecordHead) return {};
  const std::size_t length = static_cast<std::size_t>(bytes[3]) << 8 | bytes[4];
  if (length < 4 || length + kRecordHead > kMaxClientHelloBytes) return unreadable();
  if (bytes.size() >= kRecordHead + 4) {
    Fields head(bytes.subspan(kRecordHead, 4));
    const std::size_t type = head.number(1);
    // Longer than its record: the rest would come in another.
    if (type != kClientHello || head.number(3) + 4 != length) return unreadable();
  }
  if (bytes.size() < kRecordHead + length) return {};
  Fields hello(bytes.subspan(kRecordHead + 4, length - 4));
  hello.take(2 + 32);  // version, random
  hello.vector(1);     // session id
  hello.vector(2);     // cipher suites
  hello.vector(1);     // compression
  if (!hello.is_good()) return unreadable();
  if (hello.is_empty()) return {ClientHello::Kind::unnamed};
  const ByteView extensions = hello.vector(2);
  if (!hello.is_good() || !hello.is_empty()) return unreadable();
  return read_extensions(extensions);
}

}  // namespace sallyport::egress
