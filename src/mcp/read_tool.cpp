#include "mcp/read_tool.h"

#include <algorithm>
#include <array>

#include "mcp/limits.h"
#include "mcp/render.h"

namespace sallyport::mcp {
namespace {

using wire::JsonWriter;
using wire::Value;

struct MediaType {
  std::string_view suffix, kind, mime;
  std::string_view beginning;  // of its bytes; '?' is any
};
constexpr auto kMedia = std::to_array<MediaType>({
    {".png", "image", "image/png", "\x89PNG\r\n\x1a\n"},
    {".jpg", "image", "image/jpeg", "\xff\xd8\xff"},
    {".jpeg", "image", "image/jpeg", "\xff\xd8\xff"},
    {".gif", "image", "image/gif", "GIF8?a"},
    {".webp", "image", "image/webp", "RIFF????WEBP"},
    {".bmp", "image", "image/bmp", "BM"},
    {".mp3", "audio", "audio/mpeg", "ID3"},
    {".mp3", "audio", "audio/mpeg", "\xff\xfb"},
    {".mp3", "audio", "audio/mpeg", "\xff\xfa"},
    {".mp3", "audio", "audio/mpeg", "\xff\xf3"},
    {".mp3", "audio", "audio/mpeg", "\xff\xf2"},
    {".mp3", "audio", "audio/mpeg", "\xff\xe3"},
    {".wav", "audio", "audio/wav", "RIFF????WAVE"},
    {".wav", "audio", "audio/wav", "RF64????WAVE"},
    {".ogg", "audio", "audio/ogg", "OggS"},
    {".flac", "audio", "audio/flac", "fLaC"},
    {".flac", "audio", "audio/flac", "ID3"},
    {".m4a", "audio", "audio/mp4", "????ftyp"},
    {".aac", "audio", "audio/aac", "\xff\xf1"},
    {".aac", "audio", "audio/aac", "\xff\xf9"},
    {".aac", "audio", "audio/aac", "ADIF"},
    {".aac", "audio", "audio/aac", "ID3"},
});
// Images that are told by more than two letters are what they are, whatever their name.
constexpr std::size_t kCertainBytes = 3;

bool has_suffix(std::string path, std::string_view suffix) {
  for (char& c : path) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return path.ends_with(suffix);
}

bool is_named_like_media(const std::string& path) {
  return std::any_of(kMedia.begin(), kMedia.end(),
                     [&](const MediaType& type) { return has_suffix(path, type.suffix); });
}

bool begins_like(std::string_view bytes, std::string_view beginning) {
  return bytes.size() >= beginning.size() && std::equal(beginning.begin(), beginning.end(), bytes.begin(),
                                                        [](char a, char b) { return a == '?' || a == b; });
}

// Who is told a wrong type refuses all of what it is in: the bytes must be what the name says, or another image.
const MediaType* media_type(const std::string& path, std::string_view bytes) {
  for (const MediaType& type : kMedia) {
    const bool is_certain = type.kind == "image" && type.beginning.size() >= kCertainBytes;
    if ((is_certain || has_suffix(path, type.suffix)) && begins_like(bytes, type.beginning)) return &type;
  }
  return nullptr;
}

}  // namespace

void ReadOperation::on_answer(const Result<Answer>& answer) {
  if (!answer) return fail(answer.error());
  const Value result = answer->value(), given = call().arguments();
  const bool is_base64 = result.get("encoding").as_string() == "base64";
  const bool wants_bytes = given.get("encoding").as_string() == "base64";
  if (is_base64 && !wants_bytes && is_named_like_media(path())) return take_media(result);
  if (result.get("masked").as_bool().value_or(false)) {
    return call().finish_text(true,
                              "This sandbox hides what is in this file, because it looks like a secret or is denied: "
                              "it seems empty, and cannot be changed. Do not try other ways; tell the user if it is "
                              "needed.");
  }
  render_read(call(), result);
}

void ReadOperation::take_media(Value part) {
  if (call().is_over()) return;  // cancelled meanwhile
  const std::int64_t size = part.get("size").as_int().value_or(0);
  const auto bytes = from_base64(part.get("content").as_string().value_or(""));
  if (!mtime_ && bytes && media_type(path(), *bytes) == nullptr) {
    return finish_binary(call(), "The file is binary (" + std::to_string(size) +
                                     " bytes), and not the image or sound that its name says.");
  }
  if (size > kMostMediaBytes) {
    return call().finish_text(true, "It has " + std::to_string(size) + " bytes, and as an image or sound at most " +
                                        std::to_string(kMostMediaBytes) + " come at once. " +
                                        (call().can_use("exec") ? "Make a smaller copy with exec, or set" : "Set") +
                                        " encoding to base64 for its bytes in parts.");
  }
  const auto mtime = part.get("mtime_ns").as_int();
  if (!bytes || (mtime_ && mtime_ != mtime)) {
    return call().finish_text(true, "The file changed while it was read: call again.");
  }
  if (!mtime_) sha256_ = part.get("sha256").as_string().value_or("");
  mtime_ = mtime;
  media_ += *bytes;
  if (!part.get("truncated").as_bool().value_or(false)) return finish_media();
  start("fs.read", wire::to_json([&](JsonWriter& json) {
          json.begin_object().member("path", path()).member("encoding", "base64").member("sha256", false);
          json.member("max_bytes", kMediaPartBytes).member("cursor", part.get("cursor")).end_object();
        }));
}

void ReadOperation::finish_media() {
  const MediaType& type = *media_type(path(), media_);
  call().finish(false, [&](JsonWriter& json) {
    json.key("content").begin_array().begin_object().member("type", type.kind).member("data", to_base64(media_));
    json.member("mimeType", type.mime).end_object();
    write_sha256(json, call(), sha256_);
    json.end_array();
  });
}

}  // namespace sallyport::mcp
