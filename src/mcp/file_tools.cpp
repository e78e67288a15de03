#include "mcp/file_tools.h"

#include <array>

#include "mcp/advice.h"
#include "mcp/limits.h"
#include "mcp/read_tool.h"

namespace sallyport::mcp {
namespace {

using wire::Field;
using wire::JsonWriter;
using wire::Type;
using wire::Value;

constexpr std::int64_t kMaxPath = 4095;
constexpr std::int64_t kMaxCount = (1LL << 53) - 1;

constexpr Field text(std::string_view name, bool required = false, std::int64_t most = INT64_MAX) {
  return {.name = name, .type = Type::string, .required = required, .most = most};
}
constexpr Field path(std::string_view name, bool required = true) { return text(name, required, kMaxPath); }
constexpr Field flag(std::string_view name) { return {.name = name, .type = Type::boolean}; }
constexpr Field count(std::string_view name, std::int64_t least, std::int64_t most) {
  return {.name = name, .type = Type::integer, .least = least, .most = most};
}
constexpr Field texts(std::string_view name) { return {.name = name, .type = Type::string_array}; }

constexpr std::string_view kPath = "Absolute, or relative to the workspace.";
constexpr std::string_view kCursor = "From an earlier answer that said there is more.";
constexpr std::string_view kIfMatch =
    "Only if the file still has this sha256 (or \"absent\": only if there is none). Refused otherwise.";
constexpr std::string_view kHidden = "Also files whose names begin with a dot.";
constexpr std::string_view kIgnored = "Also what .gitignore leaves out.";

constexpr std::array kRead = {
    Argument{path("path"), kPath},
    Argument{count("offset", 1, kMaxCount), "First line to read, from 1."},
    Argument{count("limit", 1, kMaxCount), "How many lines."},
    Argument{flag("line_numbers"), "Put its number and a tab before each line. They are not part of the file."},
    Argument{text("encoding"), "auto (default), utf8, or base64 for the bytes of a binary file.", "auto|utf8|base64"},
    Argument{flag("sha256"), "Also give the file's sha256, for if_match."},
    Argument{text("cursor"), kCursor},
};
constexpr std::array kWrite = {
    Argument{path("path"), kPath},
    Argument{text("content", true), "All of the new content."},
    Argument{text("encoding"), "base64 if content is that; else it is text.", "utf8|base64"},
    Argument{text("if_match"), kIfMatch},
};
constexpr std::string_view kOldString = "Text to replace, exactly as it is in the file, with its spaces.";
constexpr std::string_view kReplaceAll = "Replace every occurrence. Without it there must be exactly one.";
constexpr std::array kEdit = {
    Argument{path("path"), kPath},
    Argument{text("old_string", true), kOldString},
    Argument{text("new_string", true), "What stands there afterwards."},
    Argument{flag("replace_all"), kReplaceAll},
    Argument{text("if_match"), kIfMatch},
};
constexpr std::array kOneEdit = {
    Argument{text("old_string", true), kOldString},
    Argument{text("new_string", true), "What stands there afterwards."},
    Argument{flag("replace_all"), kReplaceAll},
};
constexpr std::array kMultiEdit = {
    Argument{path("path"), kPath},
    Argument{{.name = "edits", .type = Type::array, .required = true, .least = 1, .most = 1000},
             "Applied in order, each to what the one before left. All or none.",
             {},
             kOneEdit},
    Argument{text("if_match"), kIfMatch},
};
constexpr std::array kGlob = {
    Argument{text("pattern", true), "* stops at a slash, **/ is any number of directories, {a,b} is either."},
    Argument{path("root", false), "Directory to search below (default: the workspace)."},
    Argument{text("kind"), "What to find (default: file).", "file|directory|any"},
    Argument{flag("hidden"), kHidden},
    Argument{flag("ignored"), kIgnored},
    Argument{count("limit", 1, 100'000), "At most so many paths."},
    Argument{text("cursor"), kCursor},
};
constexpr std::array kGrep = {
    Argument{text("pattern", true), "A regular expression (RE2: no look-around, no back-references)."},
    Argument{path("root", false), "File or directory to search (default: the workspace)."},
    Argument{texts("include"), "Only paths that match one of these globs, such as *.ts or src/**."},
    Argument{texts("exclude"), "No paths that match one of these globs."},
    Argument{text("mode"), "content (default): lines; files: paths only; count: matching lines per file.",
             "content|files|count"},
    Argument{text("case"), "smart: sensitive if the pattern has a capital.", "sensitive|insensitive|smart"},
    Argument{flag("fixed"), "The pattern is plain text."},
    Argument{flag("word"), "Whole words only."},
    Argument{flag("multiline"), "The pattern may span lines."},
    Argument{count("context", 0, 1000), "Lines to show around each match."},
    Argument{flag("hidden"), kHidden},
    Argument{flag("ignored"), kIgnored},
    Argument{count("limit", 1, 100'000), "At most so many matching lines (default 1000)."},
    Argument{text("cursor"), kCursor},
};
constexpr std::array kList = {
    Argument{path("path", false), "Directory (default: the workspace)."},
    Argument{flag("hidden"), "false leaves out names that begin with a dot."},
    Argument{count("limit", 1, 100'000), "At most so many entries (default 1000)."},
    Argument{text("cursor"), kCursor},
};
constexpr std::array kStat = {Argument{path("path"), kPath}};
constexpr std::string_view kTo = "The new name itself, not a directory to put it into.";
constexpr std::string_view kOverwrite = "Replace a file that is there. Directories are never replaced.";
constexpr std::array kCopy = {
    Argument{path("from"), kPath},
    Argument{path("to"), kTo},
    Argument{flag("recursive"), "Needed for a directory."},
    Argument{flag("overwrite"), kOverwrite},
    Argument{flag("create_dirs"), "Make missing parents of `to`."},
};
constexpr std::array kMove = {
    Argument{path("from"), kPath},
    Argument{path("to"), kTo},
    Argument{flag("overwrite"), kOverwrite},
    Argument{flag("create_dirs"), "Make missing parents of `to`."},
};
constexpr std::array kRemove = {
    Argument{path("path"), kPath},
    Argument{flag("recursive"), "Needed for a directory: removes all that is in it."},
};

// What structured content always holds; results may have more.
constexpr std::string_view kWritten =
    R"({"type":"object","properties":{"bytes_written":{"type":"integer"},"sha256":{"type":"string"},"note":{"type":"string"}},"required":["bytes_written","sha256"]})";
constexpr std::string_view kEdited =
    R"({"type":"object","properties":{"replacements":{"type":"integer"},"diff":{"type":"string"},"sha256":{"type":"string"},"note":{"type":"string"}},"required":["replacements","diff","sha256"]})";
constexpr std::string_view kListed =
    R"({"type":"object","properties":{"entries":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"kind":{"type":"string"},"size":{"type":"integer"}},"required":["name","kind","size"]}},"total":{"type":"integer"},"truncated":{"type":"boolean"},"cursor":{"type":"string"}},"required":["entries","total","truncated"]})";
constexpr std::string_view kStated =
    R"({"type":"object","properties":{"kind":{"type":"string"},"size":{"type":"integer"},"mode":{"type":"integer"},"mtime_ns":{"type":"integer"},"is_dir":{"type":"boolean"},"is_symlink":{"type":"boolean"}},"required":["kind","size","is_dir","is_symlink"]})";
constexpr std::string_view kCopied =
    R"({"type":"object","properties":{"files":{"type":"integer"},"directories":{"type":"integer"},"bytes":{"type":"integer"},"note":{"type":"string"}},"required":["files","directories"]})";
constexpr std::string_view kMoved =
    R"({"type":"object","properties":{"moved":{"type":"boolean"},"note":{"type":"string"}},"required":["moved"]})";
constexpr std::string_view kRemoved =
    R"({"type":"object","properties":{"removed":{"type":"integer"}},"required":["removed"]})";

constexpr std::array kTools = {
    FileTool{.name = "read",
             .title = "Read a file",
             .method = "fs.read",
             .description = "Reads a text file, or an image or sound as such. Large files come in parts: the answer "
                            "says how to get the next one. Search with grep before reading large files whole.",
             .arguments = kRead,
             .is_read_only = true,
             .is_idempotent = true},
    FileTool{.name = "write",
             .title = "Write a file",
             .method = "fs.write",
             .description = "Creates a file or replaces all of it, in one step; missing directories are made. For a "
                            "change to a file that exists, prefer edit.",
             .arguments = kWrite,
             .render = render_structured,
             .output_schema = kWritten,
             .is_destructive = true,
             .is_idempotent = true},
    FileTool{.name = "edit",
             .title = "Edit a file",
             .method = "fs.edit",
             .description = "Replaces one exact piece of text in a file and answers with the diff. Everything else in "
                            "the file stays as it is, byte for byte.",
             .arguments = kEdit,
             .render = render_structured,
             .output_schema = kEdited,
             .is_destructive = true},
    FileTool{.name = "multi_edit",
             .title = "Edit a file in several places",
             .method = "fs.multi_edit",
             .description = "Several edits of one file, all or none. Prefer it to calling edit repeatedly.",
             .arguments = kMultiEdit,
             .render = render_structured,
             .output_schema = kEdited,
             .is_destructive = true},
    FileTool{.name = "glob",
             .title = "Find files by name",
             .method = "fs.glob",
             .description = "Paths that match a pattern, sorted, one per line. Files that git ignores and hidden ones "
                            "are left out unless asked for.",
             .arguments = kGlob,
             .render = render_glob,
             .is_read_only = true,
             .is_idempotent = true},
    FileTool{.name = "grep",
             .title = "Search in files",
             .method = "fs.grep",
             .description = "Lines that match a regular expression, as path:line:text. Fast: prefer it to commands "
                            "such as grep and find.",
             .arguments = kGrep,
             .render = render_grep,
             .is_read_only = true,
             .is_idempotent = true},
    FileTool{.name = "list",
             .title = "List a directory",
             .method = "fs.list",
             .description = "The entries of one directory with kind, size and time, sorted by name.",
             .arguments = kList,
             .render = render_structured,
             .output_schema = kListed,
             .is_read_only = true,
             .is_idempotent = true},
    FileTool{.name = "stat",
             .title = "Look at a path",
             .method = "fs.stat",
             .description = "Kind, size, mode, times and link target of one path, without reading it.",
             .arguments = kStat,
             .render = render_structured,
             .output_schema = kStated,
             .is_read_only = true,
             .is_idempotent = true},
    FileTool{.name = "copy",
             .title = "Copy a file or directory",
             .method = "fs.copy",
             .description = "Copies a file, or with recursive a directory. Replaces nothing unless overwrite is set. "
                            "Only what is in the workspace stays: /tmp goes away with the sandbox.",
             .arguments = kCopy,
             .render = render_structured,
             .output_schema = kCopied,
             .is_destructive = true},
    FileTool{.name = "move",
             .title = "Move or rename",
             .method = "fs.move",
             .description = "Moves or renames a file or directory. Replaces nothing unless overwrite is set. "
                            "Only what is in the workspace stays: what is moved to /tmp is lost with the sandbox.",
             .arguments = kMove,
             .render = render_structured,
             .output_schema = kMoved,
             .is_destructive = true},
    FileTool{.name = "remove",
             .title = "Remove a file or directory",
             .method = "fs.remove",
             .description = "Removes a file, or with recursive a directory and all that is in it. There is no undo.",
             .arguments = kRemove,
             .render = render_structured,
             .output_schema = kRemoved,
             .is_destructive = true},
};

constexpr std::string_view kScratchNote =
    "It is in the sandbox's own scratch space, not in the workspace: it goes away with the sandbox.";

class FileOperation final : public Operation {
 public:
  FileOperation(const FileTool& tool, std::shared_ptr<ToolCall> call, Place& place, std::string workspace)
      : Operation(std::move(call), place, std::move(workspace)), tool_(tool) {}

 private:
  void on_answer(const Result<Answer>& answer) override {
    if (!answer) return fail(answer.error());
    const Value result = answer->value();
    if (!result.get("scratch").as_bool().value_or(false)) return tool_.render(call(), result);
    finish_structured(call(), wire::to_json([&](JsonWriter& json) {
                        json.begin_object();
                        for (const auto& [name, value] : result.members()) {
                          if (name != "scratch") json.member(name, value);
                        }
                        json.member("note", kScratchNote).end_object();
                      }));
  }

  const FileTool& tool_;
};

}  // namespace

std::span<const FileTool> file_tools() { return kTools; }

std::shared_ptr<Operation> start_file_tool(const FileTool& tool, std::shared_ptr<ToolCall> call, Place& place,
                                           const std::string& workspace) {
  const Value given = call->arguments();
  // What does not fit a frame follows as a stream, which carries bytes as they are.
  const std::string_view content = given.get("content").as_string().value_or("");
  const bool is_long = content.size() > kMaxInlineBytes;
  std::string streamed;
  if (is_long && given.get("encoding").as_string() == "base64") {
    auto decoded = from_base64(content);
    if (!decoded) {
      call->finish_text(true, explain(Error::invalid_param("content", "is not base64"), tool.name, workspace));
      return nullptr;
    }
    streamed = std::move(*decoded);
  } else if (is_long) {
    streamed = content;
  }
  std::string params = wire::to_json([&](JsonWriter& json) {
    json.begin_object();
    for (const auto& [name, value] : given.members()) {
      // Checked: nothing in here can pass for a stream's name.
      if (!is_long || (name != "content" && name != "encoding")) json.member(name, value);
    }
    if (tool.method == "fs.write") json.member("create_dirs", true);
    // Only who wants to see it pays for it.
    if (tool.method == "fs.read" && !given.get("sha256")) json.member("sha256", false);
    json.end_object();
  });
  std::shared_ptr<Operation> operation;
  if (tool.method == "fs.read") {
    operation = std::make_shared<ReadOperation>(std::move(call), place, workspace);
  } else {
    operation = std::make_shared<FileOperation>(tool, std::move(call), place, workspace);
  }
  operation->start(std::string(tool.method), std::move(params), std::move(streamed));
  return operation;
}

}  // namespace sallyport::mcp
