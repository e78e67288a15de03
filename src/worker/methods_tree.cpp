// fs.stat, fs.list, fs.copy, fs.move, fs.remove, fs.mkdir, env.get, worker.*.
#include <array>

#include "worker/about.h"
#include "worker/inspect.h"
#include "worker/methods.h"
#include "worker/params.h"
#include "worker/tree.h"

namespace sallyport::worker::methods {
namespace {

using wire::Field;
using wire::Type;

constexpr std::int64_t kMaxPath = 4095;

constexpr std::array kStat = {Field{.name = "path", .type = Type::string, .required = true, .most = kMaxPath}};
constexpr std::array kList = {
    Field{.name = "path", .type = Type::string, .most = kMaxPath},
    Field{.name = "hidden", .type = Type::boolean},
    Field{.name = "limit", .type = Type::integer, .least = 1, .most = 100'000},
    Field{.name = "max_bytes", .type = Type::integer, .least = 64, .most = static_cast<std::int64_t>(kMaxPageBytes)},
    Field{.name = "cursor", .type = Type::string},
};
constexpr std::array kCopy = {
    Field{.name = "from", .type = Type::string, .required = true, .most = kMaxPath},
    Field{.name = "to", .type = Type::string, .required = true, .most = kMaxPath},
    Field{.name = "overwrite", .type = Type::boolean},
    Field{.name = "recursive", .type = Type::boolean},
    Field{.name = "create_dirs", .type = Type::boolean},
};
constexpr std::array kMove = {
    Field{.name = "from", .type = Type::string, .required = true, .most = kMaxPath},
    Field{.name = "to", .type = Type::string, .required = true, .most = kMaxPath},
    Field{.name = "overwrite", .type = Type::boolean},
    Field{.name = "create_dirs", .type = Type::boolean},
};
constexpr std::array kRemove = {
    Field{.name = "path", .type = Type::string, .required = true, .most = kMaxPath},
    Field{.name = "recursive", .type = Type::boolean},
};
constexpr std::array kMkdir = {
    Field{.name = "path", .type = Type::string, .required = true, .most = kMaxPath},
    Field{.name = "parents", .type = Type::boolean},
};
constexpr std::array kEnv = {Field{.name = "names", .type = Type::string_array, .required = true, .most = 1000}};

void write_status(const StatAnswer& status, wire::JsonWriter& json) {
  json.member("kind", status.kind).member("size", status.size).member("is_dir", status.is_directory());
  json.member("is_symlink", status.is_symlink).member("mode", status.mode).member("mtime_ns", status.mtime_ns);
  json.member("uid", status.uid).member("gid", status.gid).member("links", status.links);
  if (status.is_symlink) json.member("target", status.target);
}

TransferRequest transfer_request(const Params& params) {
  return {params.text("from"), params.text("to"), params.flag("overwrite"), params.flag("recursive"),
          params.flag("create_dirs")};
}

}  // namespace

constinit const wire::Schema kStatSchema = kStat;
constinit const wire::Schema kListSchema = kList;
constinit const wire::Schema kCopySchema = kCopy;
constinit const wire::Schema kMoveSchema = kMove;
constinit const wire::Schema kRemoveSchema = kRemove;
constinit const wire::Schema kMkdirSchema = kMkdir;
constinit const wire::Schema kEnvSchema = kEnv;

Status stat(const Service& service, const Call& call) {
  const std::string path = Params(call.params).text("path");
  TRY(const StatAnswer answer, about(path, stat_path(service.roots(), path)));
  call.json.begin_object();
  write_status(answer, call.json);
  call.json.end_object();
  return ok();
}

Status list(const Service& service, const Call& call) {
  const Params params(call.params);
  ListRequest request;
  request.path = params.text("path", ".");
  request.with_hidden = !params.has("hidden") || params.flag("hidden");
  request.limit = params.number("limit", kDefaultHits);
  request.max_bytes = params.number("max_bytes", kDefaultPageBytes);
  request.cursor = params.text("cursor");
  TRY(const ListAnswer answer, about(request.path, list_directory(service.roots(), request)));
  call.json.begin_object().key("entries").begin_array();
  for (const ListEntry& entry : answer.entries) {
    call.json.begin_object().member("name", entry.name);
    write_status(entry.status, call.json);
    call.json.end_object();
  }
  call.json.end_array().member("total", answer.total).member("truncated", !answer.cursor.empty());
  if (!answer.cursor.empty()) call.json.member("cursor", answer.cursor);
  call.json.end_object();
  return ok();
}

Status copy(const Service& service, const Call& call) {
  TRY(const CopyAnswer answer, copy_path(service.roots(), transfer_request(Params(call.params)), call.stop));
  call.json.begin_object().member("files", answer.files).member("directories", answer.directories);
  call.json.member("links", answer.links).member("bytes", answer.bytes);
  call.json.member("skipped_special", answer.skipped_special);
  if (answer.is_scratch) call.json.member("scratch", true);
  call.json.end_object();
  return ok();
}

Status move(const Service& service, const Call& call) {
  TRY(const MoveAnswer answer, move_path(service.roots(), transfer_request(Params(call.params)), call.stop));
  call.json.begin_object().member("moved", true);
  if (answer.is_scratch) call.json.member("scratch", true);
  call.json.end_object();
  return ok();
}

Status remove(const Service& service, const Call& call) {
  const Params params(call.params);
  const std::string path = params.text("path");
  TRY(const RemoveAnswer answer, about(path, remove_path(service.roots(), path, params.flag("recursive"), call.stop)));
  call.json.begin_object().member("removed", answer.removed).end_object();
  return ok();
}

Status mkdir(const Service& service, const Call& call) {
  const Params params(call.params);
  const std::string path = params.text("path");
  TRY(const MkdirAnswer answer, about(path, make_directory(service.roots(), path, params.flag("parents"))));
  call.json.begin_object().member("created", answer.created);
  if (answer.is_scratch) call.json.member("scratch", true);
  call.json.end_object();
  return ok();
}

Status env_get(const Service& service, const Call& call) {
  std::size_t bytes = 0;
  call.json.begin_object().key("values").begin_array();
  for (const wire::Value name : call.params.get("names").items()) {
    const auto value = service.environment()(std::string(name.as_string().value_or("")));
    bytes += value ? value->size() : 0;
    if (bytes > kMaxPageBytes)
      return Error::make(Code::payload_too_large, "the values are too long for one answer: ask for fewer at once");
    if (value)
      call.json.value(*value);
    else
      call.json.null();
  }
  call.json.end_array().end_object();
  return ok();
}

Status pong(const Service&, const Call& call) {
  call.json.begin_object().member("pong", true).end_object();
  return ok();
}

}  // namespace sallyport::worker::methods
