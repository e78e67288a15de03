// Every limit of a pod, with its reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace sallyport::pod {

// The ring of raw output that log and repaint come from: some ten thousand lines.
inline constexpr std::size_t kDefaultRingBytes = 1U << 20;
inline constexpr std::size_t kMinRingBytes = 64U << 10, kMaxRingBytes = 64U << 20;

// What one turn reads of the terminal: many of the kernel's 4 KiB pieces, one chunk to each client.
inline constexpr std::size_t kReadBytes = 64U << 10;
// What was typed, by whoever had control, and the agent does not read: who types more waits.
inline constexpr std::size_t kMaxUnreadInput = 1U << 20;
// Pieces of a flood are sent together: up to this much, or after this long. A reader that is woken for every
// 4 KiB costs more than the terminal itself.
inline constexpr std::size_t kHoldBytes = 32U << 10;
inline constexpr std::size_t kFloodPieceBytes = 1U << 10;  // a keystroke's echo is smaller and never waits
inline constexpr Millis kHoldTime{1};

// A client that would need longer than this for what it has not used up yet is behind: it gets a gap and a
// repaint of at most kGapRepaintBytes. Below kNeverBehindBytes nobody is.
inline constexpr std::chrono::milliseconds kMostDelay{200};
inline constexpr std::size_t kNeverBehindBytes = 64U << 10;
inline constexpr std::size_t kGapRepaintBytes = 16U << 10;
// Repaints by a change of size are asked for at most this often: a program that redraws on each would flood.
inline constexpr Millis kNudgeInterval{1000};
// Between the two halves of such a nudge: a program that looks at the size must see that it changed.
inline constexpr Millis kNudgePause{20};

inline constexpr std::size_t kMaxConnections = 64;
inline constexpr int kMaxRows = 1000, kMaxColumns = 4000;

// How long the exit status waits for somebody to collect it.
inline constexpr Millis kKeepExited{60 * 60 * 1000};
inline constexpr Millis kDefaultGrace{10'000};
// After its command ended, a terminal that stays silent for this long is at its end even if some process
// outside any pid namespace still holds it.
inline constexpr Millis kDrainSilence{500};

// Whoever looks at a pod's life holds its lock for an instant: it is asked for again this often, this many times.
inline constexpr int kLockTries = 50;
inline constexpr Millis kLockPause{5};
// A killed daemon frees it as soon as the machine lets it die.
inline constexpr int kEndTries = 2000;
// Later clients look for the state file this often, this many times.
inline constexpr int kFindTries = 50;
inline constexpr Millis kFindPause{100};
// From spawn to ready; a machine under load needs its time, a dead daemon is noticed at once.
inline constexpr Millis kStartTimeout{30'000};

// What is kept for the warden's records while none runs: a day of a busy agent, below a MiB. An answer with as many as
// go at once stays far below a frame.
inline constexpr std::size_t kMaxReports = 2048, kReportsAtOnce = 128;
// How long a pod that is over waits for the warden to take the last of them, and for who is attached to read the end.
inline constexpr Millis kLastWords{2000};
// A pod that many attach to for years tells of each; one file before it is kept.
inline constexpr std::uint64_t kMostLogBytes = 1U << 20;
// Whoever removes a pod's files over and over must not keep it busy.
inline constexpr Millis kRestorePause{100};

// Keys that wait at a client until the agent reads what was typed before. More are left to the terminal; but if none of
// them is taken for so long they are thrown away, or nobody would find those that detach.
inline constexpr std::size_t kMaxTyped = 16U << 10;
inline constexpr Millis kDeafTime{3000};

// Device queries that pass to a controlling terminal: more than any program asks at its start, and answers that are
// few beside what a person types.
inline constexpr std::size_t kMaxQueries = 64;
inline constexpr Millis kQueryInterval{1000};
// What a terminal far away may take to answer the last of them; and to take what it is told at the end.
inline constexpr Millis kLastAnswers{1000};

inline constexpr std::size_t kMaxNameBytes = 48;
inline constexpr std::size_t kMaxSearchPathBytes = 8U << 10;  // of the caller's PATH: more places than anybody keeps
inline constexpr std::size_t kMaxRecordBytes = 256U << 10;
inline constexpr std::size_t kLastWordsBytes = 4096;

}  // namespace sallyport::pod
