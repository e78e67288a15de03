#include "mcp/render.h"

#include <algorithm>

namespace sallyport::mcp {
namespace {

using wire::JsonWriter;
using wire::Value;

std::string text(Value value) { return std::string(value.as_string().value_or("")); }
std::string number(Value value) { return value.as_int() ? std::to_string(*value.as_int()) : "?"; }

// A name with a newline in it would pass for two, and one with other such signs for something else.
std::string shown_path(Value value) {
  const std::string path = text(value);
  const bool has_controls = std::any_of(path.begin(), path.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; });
  return has_controls ? value.to_json() : path;
}

// Why there is nothing to see.
std::string about_nothing(Value result) {
  if (result.get("size").as_int() == 0) return "[The file is empty.]";
  const Value lines = result.get("lines");
  return lines ? "[The file ends before that: it has " + number(lines) + " lines.]" : "";
}

// How to get what was left out.
std::string more(Value result) {
  if (!result.get("truncated").as_bool().value_or(false)) return "";
  return "[There is more. Call again with the same arguments and cursor: " + result.get("cursor").to_json() + "]";
}

// What was not looked at, and how it would be. What is hidden or ignored is skipped only where that was not asked for.
std::string skipped(Value result) {
  std::string list, options;
  for (const auto& [reason, count] : result.get("skipped").members()) {
    if (count.as_int().value_or(0) == 0) continue;
    list += (list.empty() ? "" : ", ") + number(count) + " ";
    list += reason == "masked" ? "that this sandbox hides" : std::string(reason);
    if (reason == "hidden" || reason == "ignored") options += (options.empty() ? "" : " and ") + std::string(reason);
  }
  if (list.empty()) return "";
  return " Skipped: " + list + "." + (options.empty() ? "" : " Set " + options + " to search those too.");
}

void finish_lines(ToolCall& call, std::string lines, Value result) {
  const std::string note = more(result);
  if (!note.empty()) lines += note + "\n";
  call.finish_text(false, lines);
}

}  // namespace

void render_read(ToolCall& call, Value result) {
  const bool is_base64 = result.get("encoding").as_string() == "base64";
  const bool is_whole = !result.get("truncated").as_bool().value_or(false);
  const std::string_view content = result.get("content").as_string().value_or("");
  if (is_base64 && call.arguments().get("encoding").as_string() != "base64") {
    return finish_binary(call, "The file is binary (" + number(result.get("size")) + " bytes).");
  }
  call.finish(false, [&](JsonWriter& json) {
    json.key("content").begin_array();
    write_text(json, content);
    if (!is_whole) write_text(json, more(result));
    if (const std::string why = content.empty() && is_whole ? about_nothing(result) : ""; !why.empty()) {
      write_text(json, why);
    }
    write_sha256(json, call, text(result.get("sha256")));
    json.end_array();
  });
}

void finish_binary(ToolCall& call, std::string why) {
  why += " Set encoding to base64 if you need its bytes";
  call.finish_text(true, why + (call.can_use("exec") ? ", or look at it with exec (file, xxd, strings)." : "."));
}

void render_glob(ToolCall& call, Value result) {
  std::string lines;
  for (const Value path : result.get("paths").items()) lines += shown_path(path) + "\n";
  if (lines.empty()) lines = "No path matches." + skipped(result) + "\n";
  finish_lines(call, std::move(lines), result);
}

void render_grep(ToolCall& call, Value result) {
  std::string lines;
  for (const Value hit : result.get("matches").items()) {
    const char* mark = hit.get("context") ? "-" : ":";
    lines += shown_path(hit.get("path")) + mark + number(hit.get("line")) + mark + text(hit.get("text")) + "\n";
  }
  for (const Value file : result.get("files").items()) lines += shown_path(file) + "\n";
  for (const Value file : result.get("counts").items()) {
    lines += shown_path(file.get("path")) + ":" + number(file.get("count")) + "\n";
  }
  if (lines.empty()) {
    lines = "No line matches in " + number(result.get("searched")) + " files." + skipped(result) + "\n";
  }
  finish_lines(call, std::move(lines), result);
}

void render_structured(ToolCall& call, Value result) { finish_structured(call, result.to_json()); }

void finish_structured(ToolCall& call, std::string_view json_text) {
  call.finish(
      false,
      [&](JsonWriter& json) {
        json.key("content").begin_array();
        write_text(json, json_text);
        json.end_array();
      },
      json_text);
}

void write_text(JsonWriter& json, std::string_view content) {
  json.begin_object().member("type", "text").member("text", content).end_object();
}

void write_sha256(JsonWriter& json, const ToolCall& call, const std::string& sha256) {
  if (!call.arguments().get("sha256").as_bool().value_or(false)) return;
  write_text(json, "[sha256: " + sha256 + "]");
}

}  // namespace sallyport::mcp
