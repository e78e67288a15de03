// Every number that bounds the file worker, with its reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace sallyport::worker {

// What Linux itself follows (MAXSYMLINKS); our own walk must not be more patient than the kernel.
inline constexpr int kMaxLinks = 40;
// openat2 answers EAGAIN while directories are renamed under it. Each try costs a microsecond; after
// these the path is walked by hand, which needs no luck.
inline constexpr int kResolveTries = 16;
// The same for a last component that changes its kind between look and open.
inline constexpr int kRaceTries = 64;
// Edits hold the old bytes, the new bytes and a diff in memory at once.
inline constexpr std::uint64_t kMaxEditBytes = 64ULL << 20;
// Diffs are for reading; one that is longer than this is cut and says so.
inline constexpr std::size_t kMaxDiffBytes = 64 << 10;
// Beyond this many changed lines the middle of a diff is one replacement: Myers' memory grows with D * D.
inline constexpr std::size_t kMaxDiffEdits = 500;
// How many lines are shown when an edit's text was not found or found too often.
inline constexpr std::size_t kMaxNearest = 3;
inline constexpr std::size_t kMaxLineNumbers = 50;
// Lines compared with a text that was not found; about a microsecond each, and 16 bytes.
inline constexpr std::size_t kMaxLinesCompared = 500'000;
// Lines of such a text that are compared, and places in the file that are compared with all of them.
inline constexpr std::size_t kMaxWantedLines = 100;
inline constexpr std::size_t kMaxNearPlaces = 16;
// Changed stretches larger than this get no diff: it would be cut anyway, and lines cost memory.
inline constexpr std::size_t kMaxDiffInput = 2 << 20;

// A reply must fit in one frame of 1 MiB with its envelope: what a page of content, hits or names
// may take once it is escaped as JSON, by default and at most.
inline constexpr std::size_t kDefaultPageBytes = 256 << 10;
inline constexpr std::size_t kMaxPageBytes = 960 << 10;
// With line numbers the reader is a person or a model; lines beyond this are minified code.
inline constexpr std::size_t kNumberedLineBytes = 2000;
inline constexpr std::size_t kHitLineBytes = 500;
// Counting the lines of a file means reading all of it; above this it is not done unasked.
inline constexpr std::uint64_t kMaxCountedBytes = 64ULL << 20;
// git's own rule looks at the first 8000 bytes for a NUL.
inline constexpr std::size_t kBinaryProbeBytes = 8000;

// A search reads small files with one read of this size; a larger file costs more reads.
inline constexpr std::size_t kScanBufferBytes = 64 << 10;
// What of a larger file is looked at at once; files up to this size are read as a whole.
inline constexpr std::size_t kScanWindowBytes = 1 << 20;
// A multiline match can be anywhere, a single line can be a whole file: so much of one file is held in memory.
inline constexpr std::size_t kMaxHeldBytes = 16 << 20;
// What of a line is carried over where one does not fit: a match that is longer may be missed.
inline constexpr std::size_t kLineOverlap = 1 << 20;
// Matches on one line, or on lines that matches join, that are given one by one; a line of a minified file has
// millions.
inline constexpr std::size_t kMaxLineMatches = 10'000;
// Larger files are generated data more often than code; they are counted as skipped, unless they were named.
inline constexpr std::uint64_t kMaxSearchedBytes = 256ULL << 20;
// One descriptor is held per level and thread while walking; 1024 is a common limit on them.
inline constexpr int kMaxWalkDepth = 256;
inline constexpr unsigned kMaxWalkThreads = 8;
// Files of one directory that travel together between threads.
inline constexpr std::size_t kBatchFiles = 128;
// Half a million rules of a byte each take 100 MB; what is behind is left out, and that is counted.
inline constexpr std::size_t kMaxIgnoreFileBytes = 1 << 20;
// Bytes of names compared with ignore rules or globs between two looks at whether to stop. The worst rules take a
// byte's time for each byte of the name: 256 names of 255 bytes are a millisecond, 16 paths of 4 KiB half a second.
inline constexpr std::size_t kJudgedBytes = 64 << 10;
// An RE2 program of a hostile pattern such as (x{1000}){1000} must not fill memory.
inline constexpr std::int64_t kMaxRegexBytes = 16 << 20;
// RE2 cannot be stopped. Where it has to give up its automaton it takes 1 to 10 ns for each byte of the text and each
// instruction of the program, so it is given a product of both that is over in a fraction of a second.
inline constexpr std::size_t kRegexWork = 1 << 24;
// But enough for matches of half this length, which bounds the programs: 4 KiB times these are a second at worst.
inline constexpr std::size_t kMinRegexPiece = 4 << 10;
inline constexpr int kMaxRegexProgram = 1 << 15;
// What a call of RE2 costs besides, in bytes.
inline constexpr std::size_t kRegexCallBytes = 64;
inline constexpr std::size_t kMaxPatternBytes = 64 << 10;
// Expanding {a,b}{c,d}... doubles with each brace.
inline constexpr std::size_t kMaxGlobAlternatives = 256;
// Alternatives of a pattern, or of all filters of a search, together: a byte of their text takes up to 15 of memory,
// and each takes so many besides.
inline constexpr std::size_t kMaxGlobBytes = 1 << 20;
inline constexpr std::size_t kGlobOverhead = 256;
// Hits kept in memory, of one file and by one search; what is behind them comes with a cursor.
inline constexpr std::size_t kMaxHitBytes = 32 << 20;
inline constexpr std::size_t kDefaultHits = 1000;
inline constexpr std::size_t kDefaultPaths = 10000;
// Requests without a deadline of their own; the warden's are shorter.
inline constexpr std::chrono::seconds kDefaultDeadline{120};
// How late a cancelled search may notice it, and how often a look costs a system call.
inline constexpr std::chrono::milliseconds kPollInterval{5};
// How often hits that are streamed go out: soon enough for a reader, rarely enough for the search.
inline constexpr std::chrono::milliseconds kReachedInterval{20};
// A request that took so long may have used much memory, and can pay for giving it back.
inline constexpr std::chrono::milliseconds kLongRequest{20};
// Freed memory that a worker keeps for the next request.
inline constexpr int kKeptBytes = 2 << 20;
// A chunk that keeps both ends of a stream busy without hogging the socket's buffer.
inline constexpr std::size_t kStreamChunkBytes = 256 << 10;

}  // namespace sallyport::worker
