// Buffered entries one behind the other in one piece of memory, on their way to the writer thread: nearly every call
// has two, and strings of their own, made here and freed there, would cost more than all else that is done with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "ledger/record.h"

namespace sallyport::ledger {

// An entry whose texts are somebody else's; see Entry. Its class is that of who records it.
struct EntryView {
  EntryView() = default;
  EntryView(const Entry& entry);  // NOLINT(*-explicit-*): what is appended may be either

  std::int64_t time_ms = 0;
  Stage stage = Stage::event;
  std::string_view principal;
  std::int64_t peer_pid = -1;
  std::string_view session, request_id, method;
  std::string_view code = kOk;
  std::string_view rule;
  std::optional<Digest> payload_sha256;
  std::uint64_t payload_bytes = 0;
  std::string_view unhashed_payload;
};
void hash_payload(EntryView& entry);
Entry to_entry(const EntryView& entry);

class PackedEntries {
 public:
  void add(const EntryView& entry);

  std::size_t count() const { return count_; }
  std::size_t bytes() const { return bytes_.size(); }
  std::size_t payload_bytes() const { return payload_bytes_; }  // still to be hashed

  // In their order; each is valid until the next.
  template <typename Visit>
  Status for_each(Visit&& visit) const {
    for (std::size_t at = 0; at < bytes_.size();) TRY(visit(read(at)));
    return ok();
  }

 private:
  EntryView read(std::size_t& at) const;

  Bytes bytes_;
  std::size_t count_ = 0, payload_bytes_ = 0;
};

}  // namespace sallyport::ledger
