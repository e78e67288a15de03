#include "ledger/packed.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "wire/crypto.h"

namespace sallyport::ledger {
namespace {

constexpr std::array kTexts = {&EntryView::principal,       &EntryView::session, &EntryView::request_id,
                               &EntryView::method,          &EntryView::code,    &EntryView::rule,
                               &EntryView::unhashed_payload};

// In front of an entry's texts, which no frame or name makes longer than such a size can say; before them the hash of
// its payload, where there is one.
struct Head {
  std::int64_t time_ms, peer_pid;
  std::uint64_t payload_bytes;
  std::array<std::uint32_t, kTexts.size()> sizes;
  Stage stage;
  bool has_sha256;
};

}  // namespace

EntryView::EntryView(const Entry& entry)
    : time_ms(entry.time_ms),
      stage(entry.stage),
      principal(entry.principal),
      peer_pid(entry.peer_pid),
      session(entry.session),
      request_id(entry.request_id),
      method(entry.method),
      code(entry.code),
      rule(entry.rule),
      payload_sha256(entry.payload_sha256),
      payload_bytes(entry.payload_bytes),
      unhashed_payload(entry.unhashed_payload) {}

void hash_payload(EntryView& entry) {
  if (entry.unhashed_payload.empty()) return;
  entry.payload_sha256 = wire::sha256(as_bytes(entry.unhashed_payload));
  entry.payload_bytes = entry.unhashed_payload.size();
  entry.unhashed_payload = {};
}

Entry to_entry(const EntryView& view) {
  Entry entry;
  entry.time_ms = view.time_ms;
  entry.stage = view.stage;
  entry.principal = view.principal;
  entry.peer_pid = view.peer_pid;
  entry.session = view.session;
  entry.request_id = view.request_id;
  entry.method = view.method;
  entry.code = view.code;
  entry.rule = view.rule;
  entry.payload_sha256 = view.payload_sha256;
  entry.payload_bytes = view.payload_bytes;
  entry.unhashed_payload = view.unhashed_payload;
  return entry;
}

void PackedEntries::add(const EntryView& entry) {
  Head head{.time_ms = entry.time_ms,
            .peer_pid = entry.peer_pid,
            .payload_bytes = entry.payload_bytes,
            .sizes = {},
            .stage = entry.stage,
            .has_sha256 = entry.payload_sha256.has_value()};
  std::size_t size = sizeof head + (head.has_sha256 ? sizeof(Digest) : 0);
  for (std::size_t i = 0; i < kTexts.size(); ++i) {
    head.sizes[i] = static_cast<std::uint32_t>((entry.*kTexts[i]).size());
    size += head.sizes[i];
  }
  std::uint8_t* to = bytes_.extend(size);
  std::memcpy(to, &head, sizeof head);
  to += sizeof head;
  if (head.has_sha256) to = std::copy(entry.payload_sha256->begin(), entry.payload_sha256->end(), to);
  for (std::size_t i = 0; i < kTexts.size(); ++i) {
    if (head.sizes[i] != 0) std::memcpy(to, (entry.*kTexts[i]).data(), head.sizes[i]);
    to += head.sizes[i];
  }
  ++count_;
  payload_bytes_ += entry.unhashed_payload.size();
}

EntryView PackedEntries::read(std::size_t& at) const {
  Head head;
  std::memcpy(&head, bytes_.data() + at, sizeof head);
  at += sizeof head;
  EntryView entry;
  entry.time_ms = head.time_ms;
  entry.stage = head.stage;
  entry.peer_pid = head.peer_pid;
  entry.payload_bytes = head.payload_bytes;
  if (head.has_sha256) {
    std::memcpy(entry.payload_sha256.emplace().data(), bytes_.data() + at, sizeof(Digest));
    at += sizeof(Digest);
  }
  for (std::size_t i = 0; i < kTexts.size(); ++i) {
    entry.*kTexts[i] = as_text(bytes_.view().subspan(at, head.sizes[i]));
    at += head.sizes[i];
  }
  return entry;
}

}  // namespace sallyport::ledger
