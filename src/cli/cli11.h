// CLI11 without its ready-made validators: every file that includes the library makes eight of them before main, and
// a `sallyport run` would wait for more than a hundred. Here they are null pointers; CLI::Range and the like are there.
#pragma once

// NOLINTBEGIN(readability-identifier-naming): the library's own names
#define ExistingFile *const kNoExistingFile = nullptr
#define ExistingDirectory *const kNoExistingDirectory = nullptr
#define ExistingPath *const kNoExistingPath = nullptr
#define NonexistentPath *const kNoNonexistentPath = nullptr
#define ValidIPV4 *const kNoValidIPV4 = nullptr
#define Number(...) *const kNoNumber = nullptr
#define NonNegativeNumber(...) *const kNoNonNegativeNumber = nullptr
#define PositiveNumber(...) *const kNoPositiveNumber = nullptr
// NOLINTEND(readability-identifier-naming)
#include <CLI/CLI.hpp>  // IWYU pragma: export
#undef ExistingFile
#undef ExistingDirectory
#undef ExistingPath
#undef NonexistentPath
#undef ValidIPV4
#undef Number
#undef NonNegativeNumber
#undef PositiveNumber
