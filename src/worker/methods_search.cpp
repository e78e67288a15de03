// fs.glob and fs.grep.
#include <array>

#include "worker/about.h"
#include "worker/find.h"
#include "worker/grep.h"
#include "worker/methods.h"
#include "worker/params.h"

namespace sallyport::worker::methods {
namespace {

using wire::Field;
using wire::Type;

constexpr std::int64_t kMaxPath = 4095;
constexpr auto kPattern = static_cast<std::int64_t>(kMaxPatternBytes);
constexpr auto kPage = static_cast<std::int64_t>(kMaxPageBytes);

constexpr std::array kGlob = {
    Field{.name = "pattern", .type = Type::string, .required = true, .least = 1, .most = kPattern},
    Field{.name = "root", .type = Type::string, .most = kMaxPath},
    Field{.name = "kind", .type = Type::string},
    Field{.name = "hidden", .type = Type::boolean},
    Field{.name = "ignored", .type = Type::boolean},
    Field{.name = "limit", .type = Type::integer, .least = 1, .most = 100'000},
    Field{.name = "max_bytes", .type = Type::integer, .least = 64, .most = kPage},
    Field{.name = "cursor", .type = Type::string},
};

constexpr std::array kGrep = {
    Field{.name = "pattern", .type = Type::string, .required = true, .least = 1, .most = kPattern},
    Field{.name = "root", .type = Type::string, .most = kMaxPath},
    Field{.name = "include", .type = Type::any},
    Field{.name = "exclude", .type = Type::any},
    Field{.name = "types", .type = Type::any},
    Field{.name = "mode", .type = Type::string},
    Field{.name = "case", .type = Type::string},
    Field{.name = "word", .type = Type::boolean},
    Field{.name = "fixed", .type = Type::boolean},
    Field{.name = "multiline", .type = Type::boolean},
    Field{.name = "only_matching", .type = Type::boolean},
    Field{.name = "before", .type = Type::integer, .least = 0, .most = 1000},
    Field{.name = "after", .type = Type::integer, .least = 0, .most = 1000},
    Field{.name = "context", .type = Type::integer, .least = 0, .most = 1000},
    Field{.name = "hidden", .type = Type::boolean},
    Field{.name = "ignored", .type = Type::boolean},
    Field{.name = "binary", .type = Type::boolean},
    Field{.name = "limit", .type = Type::integer, .least = 1, .most = 100'000},
    Field{.name = "max_bytes", .type = Type::integer, .least = 64, .most = kPage},
    Field{.name = "max_line_bytes", .type = Type::integer, .least = 16, .most = 64 << 10},
    Field{.name = "cursor", .type = Type::string},
    Field{.name = "stream", .type = Type::boolean},
};

constexpr std::array<Params::Word<GlobRequest::Kind>, 3> kKinds = {
    {{"file", GlobRequest::Kind::file}, {"directory", GlobRequest::Kind::directory}, {"any", GlobRequest::Kind::any}}};
using Mode = SearchOptions::Mode;
constexpr std::array<Params::Word<Mode>, 3> kModes = {
    {{"content", Mode::content}, {"files", Mode::files}, {"count", Mode::count}}};
using Case = PatternOptions::Case;
constexpr std::array<Params::Word<Case>, 3> kCases = {
    {{"sensitive", Case::sensitive}, {"insensitive", Case::insensitive}, {"smart", Case::smart}}};

// Every reason is always there: a reader need not know which ones exist to see that nothing was left out.
void write_skipped(const Skipped& skipped, wire::JsonWriter& json) {
  json.key("skipped").begin_object();
  json.member("ignored", skipped.ignored).member("hidden", skipped.hidden).member("binary", skipped.binary);
  json.member("too_large", skipped.too_large).member("unreadable", skipped.unreadable);
  json.member("symlinks", skipped.symlinks).member("special", skipped.special).member("too_deep", skipped.too_deep);
  json.member("masked", skipped.masked).member("long_lines", skipped.long_lines);
  json.member("ignore_files_cut", skipped.ignore_files_cut);
  json.end_object();
}

WalkOptions walk_options(const Params& params) {
  WalkOptions options;
  options.with_hidden = params.flag("hidden");
  options.with_ignored = params.flag("ignored");
  return options;
}

Result<GrepRequest> grep_request(const Params& params) {
  GrepRequest request;
  request.pattern = params.text("pattern");
  request.root = params.text("root", ".");
  TRY(request.include, params.texts("include"));
  TRY(request.exclude, params.texts("exclude"));
  TRY(request.types, params.texts("types"));
  TRY(request.search.mode, params.word("mode", kModes));
  TRY(request.options.letter_case, params.word("case", kCases));
  request.options.is_word = params.flag("word");
  request.options.is_fixed = params.flag("fixed");
  request.options.is_multiline = params.flag("multiline");
  request.search.only_matching = params.flag("only_matching");
  const std::uint64_t context = params.number("context", 0);
  request.search.before = static_cast<std::uint32_t>(params.number("before", context));
  request.search.after = static_cast<std::uint32_t>(params.number("after", context));
  request.search.with_binary = params.flag("binary");
  request.search.line_bytes = params.number("max_line_bytes", kHitLineBytes);
  request.limit = params.number("limit", kDefaultHits);
  request.max_bytes = params.number("max_bytes", kDefaultPageBytes);
  request.cursor = params.text("cursor");
  request.walk = walk_options(params);
  return request;
}

void write_hits(const std::vector<GrepFile>& files, wire::JsonWriter& json) {
  json.key("matches").begin_array();
  for (const GrepFile& file : files) {
    for (const Hit& hit : file.found.hits) {
      json.begin_object().member("path", file.path).member("line", hit.line).member("text", hit.text);
      if (hit.is_context())
        json.member("context", true);
      else
        json.member("column", hit.column);
      if (hit.is_cut) json.member("cut", true);
      json.end_object();
    }
  }
  json.end_array();
}

void write_files(const std::vector<GrepFile>& files, Mode mode, wire::JsonWriter& json) {
  json.key(mode == Mode::files ? "files" : "counts").begin_array();
  for (const GrepFile& file : files) {
    if (mode == Mode::files)
      json.value(file.path);
    else
      json.begin_object().member("path", file.path).member("count", file.found.matches).end_object();
  }
  json.end_array();
}

void write_page(const std::vector<GrepFile>& files, Mode mode, wire::JsonWriter& json) {
  if (mode == Mode::content)
    write_hits(files, json);
  else
    write_files(files, mode, json);
}

}  // namespace

constinit const wire::Schema kGlobSchema = kGlob;
constinit const wire::Schema kGrepSchema = kGrep;

Status glob(const Service& service, const Call& call) {
  const Params params(call.params);
  GlobRequest request;
  request.pattern = params.text("pattern");
  request.root = params.text("root", ".");
  TRY(request.kind, params.word("kind", kKinds));
  request.limit = params.number("limit", kDefaultPaths);
  request.max_bytes = params.number("max_bytes", kDefaultPageBytes);
  request.cursor = params.text("cursor");
  request.walk = walk_options(params);
  TRY(const GlobAnswer answer, about(request.root, find_paths(service.roots(), request, call.stop), "root"));
  call.json.begin_object().key("paths").begin_array();
  for (const std::string& path : answer.paths) call.json.value(path);
  call.json.end_array().member("total", answer.total).member("truncated", !answer.cursor.empty());
  write_skipped(answer.skipped, call.json);
  if (!answer.cursor.empty()) call.json.member("cursor", answer.cursor);
  call.json.end_object();
  return ok();
}

Status grep(const Service& service, const Call& call) {
  TRY(const GrepRequest request, grep_request(Params(call.params)));
  const bool is_streamed = Params(call.params).flag("stream");
  if (is_streamed && call.streams == nullptr) return Error::invalid_param("params.stream", "is not possible here");
  OnPage on_page;
  if (is_streamed) {
    on_page = [&](const std::vector<GrepFile>& files) {
      const std::string page = wire::to_json([&](wire::JsonWriter& json) {
        json.begin_object();
        write_page(files, request.search.mode, json);
        json.end_object();
      });
      return call.streams->send_progress(page, call.stop);
    };
  }
  TRY(const GrepAnswer answer, about(request.root, worker::grep(service.roots(), request, call.stop, on_page), "root"));
  call.json.begin_object();
  if (is_streamed)
    call.json.member("total", answer.total).member("pages", answer.pages);
  else
    write_page(answer.files, request.search.mode, call.json);
  call.json.member("searched", answer.searched).member("truncated", !answer.cursor.empty());
  write_skipped(answer.skipped, call.json);
  if (!answer.cursor.empty()) call.json.member("cursor", answer.cursor);
  call.json.end_object();
  return ok();
}

}  // namespace sallyport::worker::methods
