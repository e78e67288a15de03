#include "mcp/read_tool.h"

#include <array>

#include "mcp/limits.h"
#include "mcp/render.h"

namespace sallyport::mcp {
namespace {

using wire::JsonWriter;
using wire::Value;

struct MediaType {
  std::string_view suffix, kind, mime;
};
constexpr std::array<MediaType, 12> kMedia = {{{".png", "image", "image/png"},
                                               {".jpg", "image", "image/jpeg"},
                                               {".jpeg", "image", "image/jpeg"},
                                               {".gif", "image", "image/gif"},
                                               {".webp", "image", "image/webp"},
                                               {".bmp", "image", "image/bmp"},
                                               {".mp3", "audio", "audio/mpeg"},
                                               {".wav", "audio", "audio/wav"},
                                               {".ogg", "audio", "audio/ogg"},
                                               {".flac", "audio", "audio/flac"},
                                               {".m4a", "audio", "audio/mp4"},
                                               {".aac", "audio", "audio/aac"}}};

const MediaType* media_type(std::string path) {
  for (char& c : path) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const MediaType& type : kMedia) {
    if (path.ends_with(type.suffix)) return &type;
  }
  return nullptr;
}

}  // namespace

void ReadOperation::on_answer(const Result<Answer>& answer) {
  if (!answer) return fail(answer.error());
  const Value result = answer->value(), given = call().arguments();
  const bool is_base64 = result.get("encoding").as_string() == "base64";
  const bool wants_bytes = given.get("encoding").as_string() == "base64";
  if (is_base64 && !wants_bytes && media_type(path()) != nullptr) return take_media(result);
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
  if (size > kMostMediaBytes) {
    return call().finish_text(true, "It has " + std::to_string(size) + " bytes, and as an image or sound at most " +
                                        std::to_string(kMostMediaBytes) +
                                        " come at once. Make a smaller copy with exec, or set encoding to base64 for "
                                        "its bytes in parts.");
  }
  const auto mtime = part.get("mtime_ns").as_int();
  const auto bytes = from_base64(part.get("content").as_string().value_or(""));
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
  const MediaType& type = *media_type(path());
  call().finish(false, [&](JsonWriter& json) {
    json.key("content").begin_array().begin_object().member("type", type.kind).member("data", to_base64(media_));
    json.member("mimeType", type.mime).end_object();
    write_sha256(json, call(), sha256_);
    json.end_array();
  });
}

}  // namespace sallyport::mcp
