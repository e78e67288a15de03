#include "table.h"

#include <cstdio>

#include "wire/json.h"

namespace sallyport::bench {
namespace {

bool reaches(const Line& line, double bound) {
  return line.more_is_better ? line.figure >= bound : line.figure <= bound;
}

const char* verdict(const Line& line) {
  if (!line.target) return "";
  if (line.stretch && reaches(line, *line.stretch)) return "stretch";
  return reaches(line, *line.target) ? "met" : "MISSED";
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value < 0.1 ? "%.3f" : value < 100 ? "%.2f" : "%.0f", value);
  return text;
}

std::string bound(const Line& line, const std::optional<double>& value) {
  return value ? (line.more_is_better ? ">= " : "<= ") + number(*value) : "";
}

}  // namespace

std::string with_unit(double value, const char* unit) { return number(value) + ' ' + unit; }

void print_table(const std::vector<Line>& lines) {
  const char* format = "%-44s %14s %14s %8s  %-8s %-8s %-8s %s\n";
  std::printf(format, "row", "ours", "raw", "figure", "target", "stretch", "", "peers");
  for (const Line& line : lines) {
    std::string peers;
    for (const auto& [name, figure] : line.peers) peers += name + ' ' + number(figure) + "  ";
    std::printf(format, line.row.c_str(), line.ours.c_str(), line.raw.c_str(), number(line.figure).c_str(),
                bound(line, line.target).c_str(), bound(line, line.stretch).c_str(), verdict(line), peers.c_str());
  }
}

void print_json(const std::vector<Line>& lines) {
  const std::string text = wire::to_json([&](wire::JsonWriter& json) {
    json.begin_array();
    for (const Line& line : lines) {
      json.begin_object().member("row", line.row).member("ours", line.ours).member("raw", line.raw);
      json.member("figure", line.figure).member("verdict", verdict(line)).key("peers").begin_object();
      for (const auto& [name, figure] : line.peers) json.member(name, figure);
      json.end_object();
      if (line.target) json.member("target", *line.target);
      if (line.stretch) json.member("stretch", *line.stretch);
      json.end_object();
    }
    json.end_array();
  });
  std::puts(text.c_str());
}

}  // namespace sallyport::bench
