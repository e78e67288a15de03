// The frame reader gives out the same frames, and the same end, however its bytes are split.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "wire/frame.h"

namespace {

using namespace sallyport;

void demand(bool holds) {
  if (!holds) std::abort();
}

struct Reading {
  std::vector<std::string> bodies;
  std::string end;
  bool operator==(const Reading&) const = default;
};

// Takes the frames that are complete; false once the framing is lost.
bool drain(wire::FrameReader& reader, Reading& reading) {
  for (;;) {
    const auto frame = reader.next();
    if (!frame) {
      reading.end = frame.error().message;
      demand(!reader.next());
      return false;
    }
    if (!*frame) return true;
    demand(!(*frame)->empty() && (*frame)->size() <= wire::kMaxFrameBytes);
    reading.bodies.emplace_back(as_text(**frame));
  }
}

// `cut` picks the size of each piece; 0 feeds all at once.
Reading read_in_pieces(ByteView bytes, std::uint32_t cut, bool trims) {
  wire::FrameReader reader;
  Reading reading;
  while (!bytes.empty()) {
    cut = cut * 1664525 + 1013904223;
    const std::size_t size = cut % 2 == 0 ? 1 + (cut >> 8) % 7 : 1 + (cut >> 8) % 100'000;
    const ByteView piece = bytes.first(std::min(size, bytes.size()));
    if (size % 3 == 0) {
      reader.feed(piece);
    } else {
      for (ByteView rest = piece; !rest.empty();) {
        const auto room = reader.writable();
        demand(!room.empty());
        const std::size_t count = std::min(room.size(), rest.size());
        std::copy_n(rest.data(), count, room.data());
        reader.commit(count);
        rest = rest.subspan(count);
      }
    }
    bytes = bytes.subspan(piece.size());
    if (!drain(reader, reading)) return reading;
    if (trims) reader.trim();
    // Never more than one frame and one read beyond what came.
    demand(reader.writable().size() <= 2 * wire::kMaxFrameBytes + (256U << 10));
  }
  if (const Status end = reader.finish(); !end) reading.end = end.error().message;
  return reading;
}

Reading read_at_once(ByteView bytes) {
  wire::FrameReader reader;
  reader.feed(bytes);
  Reading reading;
  if (!drain(reader, reading)) return reading;
  if (const Status end = reader.finish(); !end) reading.end = end.error().message;
  return reading;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteView bytes{data, size};
  const Reading whole = read_at_once(bytes);
  const std::uint32_t seed = static_cast<std::uint32_t>(size) * 2654435761U + (size > 0 ? data[0] : 0);
  demand(read_in_pieces(bytes, seed, false) == whole);
  demand(read_in_pieces(bytes, seed + 1, true) == whole);
  for (const std::string& body : whole.bodies) {
    Bytes out;
    demand(bool(wire::append_frame(out, as_bytes(body))));
    demand(out.size() == wire::kHeaderBytes + body.size());
  }
  return 0;
}
