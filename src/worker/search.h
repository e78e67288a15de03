// Searching one file: windows of whole lines, hits with their context.
//
// A byte-order mark is no part of the first line. What begins with UTF-16's is searched, shown and counted in columns
// as UTF-8. Files of any size are searched in bounded memory, and with looks at whether to stop.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/limits.h"
#include "worker/pattern.h"
#include "worker/text_source.h"

namespace sallyport::worker {

struct Hit {
  std::uint64_t line = 0;       // from 1; where it begins
  std::uint64_t last_line = 0;  // where it ends: a multiline hit has several lines
  std::uint32_t column = 0;     // from 1, in bytes; 0 for context
  bool is_cut = false;          // the text is not all of the line, or matches behind this one were left out
  std::string text;             // without its line ending
  bool is_context() const { return column == 0; }
};

struct SearchOptions {
  enum class Mode : std::uint8_t { content, files, count };
  Mode mode = Mode::content;
  std::uint32_t before = 0;
  std::uint32_t after = 0;
  bool only_matching = false;
  bool with_binary = false;                // search binary files as if they were text
  bool with_large = false;                 // and files above kMaxSearchedBytes
  std::size_t line_bytes = kHitLineBytes;  // longer texts are cut around the match
  std::uint64_t most_lines = UINT64_MAX;   // matching lines after which a file is left
};

struct FileHits {
  std::uint64_t matches = 0;  // matching lines; stretches of lines that matches share for a multiline pattern
  std::vector<Hit> hits;      // content mode only
  std::size_t bytes = 0;      // that the hits take
  // Their bytes ended the search before the file or most_lines did: what is left lies behind this line.
  std::uint64_t rest_behind = 0;
  // Lines, or the text of a multiline search, that were too long to be searched at once: see Effort.
  std::uint64_t long_texts = 0;
};

// stopped: what was found until then is not all. empty: there was nothing to search.
enum class Outcome : std::uint8_t { searched, empty, binary, too_large, unreadable, stopped };

// One per thread; its buffer is reused from file to file.
class FileSearcher {
 public:
  FileSearcher(const Pattern& pattern, const SearchOptions& options, const Stop& stop);

  // Hits behind line `after_line` are added to `found`, until they take kMaxHitBytes.
  Outcome search(int fd, std::uint64_t after_line, FileHits& found);

 private:
  struct State {
    FileHits* found;
    std::uint64_t after_line;
    const char* counted;         // where `line` was counted to
    std::uint64_t line;          // number of the line at `counted`
    const char* emitted;         // end of what was shown already
    std::uint32_t context_left;  // lines of context still owed behind a match
    bool was_shown;              // that context, on the page before
  };

  // The buffer's content: [0, filled), of which what is before `next` was searched.
  struct Held {
    std::size_t filled = 0;
    std::size_t next = 0;
  };

  bool search_windows(TextSource& source, std::size_t filled, State& state);
  bool fill(TextSource& source, Held& held);
  const char* search_window(const char* from, const char* end, bool is_last, State& state);
  void slide(Held& held, const char* next, State& state);
  bool grow(State& state);
  bool pass_long_line(TextSource& source, Held& held, State& state);
  const char* search_whole(const char* from, const char* end, bool is_last, State& state);
  void scan(const char* oldest, const char* from, const char* end, State& state);
  // Of the lines [line, line_end), which hold matches_.
  void add_matches(const char* oldest, const char* line, const char* line_end, State& state);
  void add_each_match(const char* line, State& state);
  void collect_line(Span first, const char* line, const char* line_end);
  std::optional<Span> next_match(Span text, Span last, const char* upto);
  void add_context(const char* from, const char* end, State& state);
  void add(const char* line, const char* end, std::uint32_t column, State& state);
  std::uint64_t line_of(const char* place, State& state);
  bool is_full(const State& state) const;
  bool is_done(const State& state) const;
  bool gives_each_match() const { return options_.only_matching && options_.mode == SearchOptions::Mode::content; }
  void reserve(std::size_t capacity);  // keeps the content
  const char* begin() const { return buffer_.get(); }

  const Pattern& pattern_;
  SearchOptions options_;
  Effort effort_;
  std::unique_ptr<char[]> buffer_;
  std::size_t capacity_ = 0;
  std::vector<Span> matches_;
};

}  // namespace sallyport::worker
