// fs.read, fs.write, fs.edit, fs.multi_edit: one file's content.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "worker/about.h"
#include "worker/inspect.h"
#include "worker/methods.h"
#include "worker/params.h"
#include "worker/read.h"
#include "worker/sha256.h"
#include "worker/text.h"
#include "worker/write.h"

namespace sallyport::worker::methods {
namespace {

using wire::Field;
using wire::Type;

constexpr std::int64_t kMaxPath = 4095;
constexpr std::int64_t kMaxCount = 1LL << 53;  // what every JSON reader holds exactly

constexpr std::array kRead = {
    Field{.name = "path", .type = Type::string, .required = true, .most = kMaxPath},
    Field{.name = "offset", .type = Type::integer, .least = 1, .most = kMaxCount},
    Field{.name = "limit", .type = Type::integer, .least = 1, .most = kMaxCount},
    Field{.name = "byte_offset", .type = Type::integer, .least = 0, .most = kMaxCount},
    Field{.name = "byte_limit", .type = Type::integer, .least = 0, .most = kMaxCount},
    Field{.name = "max_bytes", .type = Type::integer, .least = 64, .most = static_cast<std::int64_t>(kMaxPageBytes)},
    Field{.name = "max_line_bytes", .type = Type::integer, .least = 16, .most = kMaxCount},
    Field{.name = "line_numbers", .type = Type::boolean},
    Field{.name = "encoding", .type = Type::string},
    Field{.name = "sha256", .type = Type::boolean},
    Field{.name = "cursor", .type = Type::string},
    Field{.name = "stream", .type = Type::boolean},
};

constexpr std::array kWrite = {
    Field{.name = "path", .type = Type::string, .required = true, .most = kMaxPath},
    Field{.name = "content", .type = Type::any, .required = true},
    Field{.name = "encoding", .type = Type::string},
    Field{.name = "if_match", .type = Type::string},
    Field{.name = "create_dirs", .type = Type::boolean},
    Field{.name = "durable", .type = Type::boolean},
};

constexpr std::array kEdit = {
    Field{.name = "path", .type = Type::string, .required = true, .most = kMaxPath},
    Field{.name = "old_string", .type = Type::string, .required = true},
    Field{.name = "new_string", .type = Type::string, .required = true},
    Field{.name = "replace_all", .type = Type::boolean},
    Field{.name = "if_match", .type = Type::string},
    Field{.name = "durable", .type = Type::boolean},
};

constexpr std::array kMultiEdit = {
    Field{.name = "path", .type = Type::string, .required = true, .most = kMaxPath},
    Field{.name = "edits", .type = Type::array, .required = true, .least = 1, .most = 1000},
    Field{.name = "if_match", .type = Type::string},
    Field{.name = "durable", .type = Type::boolean},
};

constexpr std::array kOneEdit = {
    Field{.name = "old_string", .type = Type::string, .required = true},
    Field{.name = "new_string", .type = Type::string, .required = true},
    Field{.name = "replace_all", .type = Type::boolean},
};

using Encoding = ReadRequest::Encoding;
constexpr std::array<Params::Word<Encoding>, 3> kEncodings = {
    {{"auto", Encoding::automatic}, {"utf8", Encoding::utf8}, {"base64", Encoding::base64}}};

void write_read_result(const ReadAnswer& answer, wire::JsonWriter& json) {
  json.begin_object().member("content", answer.content).member("encoding", answer.is_base64 ? "base64" : "utf8");
  json.member("size", answer.size).member("mtime_ns", answer.mtime_ns).member("truncated", !answer.cursor.empty());
  if (answer.lines) json.member("lines", *answer.lines);
  if (answer.first_line > 0 && !answer.is_base64) json.member("first_line", answer.first_line);
  if (answer.cut_lines > 0) json.member("cut_lines", answer.cut_lines);
  if (answer.is_binary) json.member("binary", true);
  if (answer.is_masked) json.member("masked", true);
  if (!answer.sha256.empty()) json.member("sha256", answer.sha256);
  if (!answer.cursor.empty()) json.member("cursor", answer.cursor);
  json.end_object();
}

// The bytes themselves, on a stream; ranges by byte only, because nothing is decoded.
Status read_as_stream(const Service& service, const Call& call, const Params& params) {
  if (call.streams == nullptr) return Error::invalid_param("params.stream", "is not possible here");
  for (const char* name : {"offset", "limit", "line_numbers", "max_line_bytes", "cursor", "encoding", "sha256"}) {
    if (params.has(name)) {
      return Error::invalid_param("params." + std::string(name), "does not go together with stream");
    }
  }
  const std::string path = params.text("path");
  struct stat status{};
  TRY(UniqueFd file, about(path, service.roots().open_file(path, O_RDONLY, status)));
  const auto size = static_cast<std::uint64_t>(status.st_size);
  char first = 0;
  if (size == 0 && ::pread(file.get(), &first, 1, 0) > 0) {
    return Error::invalid_param("params.stream", "does not go with a file that has no size; read it without");
  }
  const std::uint64_t from = std::min(params.number("byte_offset", 0), size);
  const std::uint64_t to = from + std::min(params.number("byte_limit", size), size - from);
  TRY(const std::uint32_t stream, call.streams->send_file(std::move(file), from, to));
  call.json.begin_object().key("content").begin_object().member("$stream", stream).end_object();
  call.json.member("encoding", "bytes").member("size", size).member("bytes", to - from);
  call.json.member("mtime_ns", mtime_ns(status)).member("truncated", false).end_object();
  return ok();
}

// Content that comes as chunks goes to the disk as it comes; its hash is taken on the way.
Result<WriteAnswer> write_from_stream(const Service& service, const Call& call, WriteRequest request,
                                      std::uint32_t stream) {
  Sha256 hash;
  std::size_t written = 0;
  request.fill = [&](int draft) -> Status {
    while (true) {
      TRY(const std::optional<std::string_view> bytes, call.streams->receive(stream));
      if (!bytes) return ok();
      hash.update(*bytes);
      written += bytes->size();
      TRY(write_all(draft, *bytes, *request.options.calls));
    }
  };
  TRY(const WriteAnswer filled, about(request.path, write_file(service.roots(), request, call.stop)));
  return WriteAnswer{written, hash.hex(), filled.is_scratch};
}

void write_edit_result(const EditAnswer& answer, wire::JsonWriter& json) {
  json.begin_object().member("replacements", answer.replacements).member("diff", answer.diff);
  if (answer.diff_cut) json.member("diff_truncated", true);
  if (!answer.is_diff_exact) json.member("diff_inexact", true);
  json.member("sha256", answer.sha256);
  if (answer.is_scratch) json.member("scratch", true);
  json.end_object();
}

Edit edit_of(const Params& params) {
  return {params.text("old_string"), params.text("new_string"), params.flag("replace_all")};
}

Status run_edits(const Service& service, const Call& call, std::vector<Edit> edits) {
  const Params params(call.params);
  EditRequest request{params.text("path"), std::move(edits), params.optional_text("if_match"), {}};
  request.options.durable = params.flag("durable");
  TRY(const EditAnswer answer, about(request.path, edit_file(service.roots(), request, call.stop)));
  write_edit_result(answer, call.json);
  return ok();
}

}  // namespace

constinit const wire::Schema kReadSchema = kRead;
constinit const wire::Schema kWriteSchema = kWrite;
constinit const wire::Schema kEditSchema = kEdit;
constinit const wire::Schema kMultiEditSchema = kMultiEdit;

Status read(const Service& service, const Call& call) {
  const Params params(call.params);
  if (params.flag("stream")) return read_as_stream(service, call, params);
  ReadRequest request;
  request.path = params.text("path");
  request.offset = params.number("offset", 1);
  request.limit = params.optional_number("limit");
  request.byte_offset = params.optional_number("byte_offset");
  request.byte_limit = params.optional_number("byte_limit");
  if ((request.byte_offset || request.byte_limit) &&
      (params.has("offset") || request.limit || params.flag("line_numbers"))) {
    return Error::invalid_param("params.byte_offset", "does not go together with lines");
  }
  request.max_bytes = params.number("max_bytes", kDefaultPageBytes);
  request.line_numbers = params.flag("line_numbers");
  request.max_line_bytes = params.optional_number("max_line_bytes");
  TRY(request.encoding, params.word("encoding", kEncodings));
  request.want_sha256 = params.optional_flag("sha256");
  request.cursor = params.text("cursor");
  TRY(const ReadAnswer answer, about(request.path, read_file(service.roots(), request, call.stop)));
  write_read_result(answer, call.json);
  return ok();
}

Status write(const Service& service, const Call& call) {
  const Params params(call.params);
  WriteRequest request;
  request.path = params.text("path");
  request.if_match = params.optional_text("if_match");
  request.create_dirs = params.flag("create_dirs");
  request.options.durable = params.flag("durable");
  TRY(const Encoding encoding, params.word("encoding", kEncodings));
  const wire::Value content = params.get("content");
  WriteAnswer answer;
  if (const auto text = content.as_string()) {
    std::optional<std::string> decoded;
    request.content = *text;
    if (encoding == Encoding::base64) {
      decoded = from_base64(*text);
      if (!decoded) return Error::invalid_param("params.content", "is not base64");
      request.content = *decoded;
    }
    TRY(answer, about(request.path, write_file(service.roots(), request, call.stop)));
  } else if (const auto stream = content.get("$stream").as_uint(); stream && call.streams != nullptr) {
    TRY(answer, write_from_stream(service, call, std::move(request), static_cast<std::uint32_t>(*stream)));
  } else {
    return Error::invalid_param("params.content", "must be a string or a stream");
  }
  call.json.begin_object().member("bytes_written", answer.bytes_written).member("sha256", answer.sha256);
  if (answer.is_scratch) call.json.member("scratch", true);
  call.json.end_object();
  return ok();
}

Status edit(const Service& service, const Call& call) {
  return run_edits(service, call, {edit_of(Params(call.params))});
}

Status multi_edit(const Service& service, const Call& call) {
  std::vector<Edit> edits;
  for (const wire::Value item : call.params.get("edits").items()) {
    if (!item.is_object()) return Error::invalid_param("params.edits", "must hold objects only");
    if (auto checked = wire::check_params(kOneEdit, item); !checked) {
      Error error = std::move(checked).error();
      error.message.insert(0, "edits[" + std::to_string(edits.size()) + "]: ");
      return error;
    }
    edits.push_back(edit_of(Params(item)));
  }
  return run_edits(service, call, std::move(edits));
}

}  // namespace sallyport::worker::methods
