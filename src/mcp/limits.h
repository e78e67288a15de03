// Every limit of the bridge, with its reason.
#pragma once

#include <chrono>
#include <cstddef>

#include "wire/limits.h"

namespace sallyport::mcp {

// One line is one message. Room for writing a file of a few megabytes; more belongs into several edits.
inline constexpr std::size_t kMaxLineBytes = 8U << 20;
// Beyond this a file's new content travels to the warden as a stream, because a frame holds 1 MiB.
inline constexpr std::size_t kMaxInlineBytes = 128U << 10;
// So much text passes a review, whatever lines and quotes it has: all of the call's arguments may have 128 KiB as JSON.
inline constexpr std::size_t kMostReviewedText = 60'000;
// Calls in flight. Clients run a handful at once; each holds its arguments.
inline constexpr std::size_t kMaxCalls = 64;
// Commands that run at once; more wait for their turn. Each needs two of the streams of our one connection.
inline constexpr std::size_t kMaxCommands = wire::kMaxOpenStreams / 2;
// Messages of one batch (revision 2025-03-26 only).
inline constexpr std::size_t kMaxBatch = 64;
inline constexpr std::size_t kMaxIdBytes = 256;
// Unsent output; beyond it neither the client nor the warden is read until the client reads again.
inline constexpr std::size_t kMaxUnsentBytes = 4U << 20;
// Asked of the kernel for the pipe to the client.
inline constexpr int kPipeBytes = 1 << 20;
// Tools on one page of tools/list. All of ours fit: some clients never ask for the second page.
inline constexpr std::size_t kToolsPerPage = 100;

// An image or sound that comes as one. Models take a few megabytes; the client gets it as a third more of text.
inline constexpr std::int64_t kMostMediaBytes = 8 << 20;
// What a page of it takes: the most that the file worker puts into one answer.
inline constexpr std::int64_t kMediaPartBytes = 960 << 10;

// A command's output that reaches the model, unless it asks for less or (up to the second) more.
inline constexpr std::size_t kDefaultOutputBytes = 64U << 10;
inline constexpr std::size_t kMostOutputBytes = 512U << 10;
// Below the minute after which the official SDKs' clients give up by themselves: what a command said until then would
// be lost with the call.
inline constexpr std::chrono::milliseconds kDefaultCommandTime{50'000};
inline constexpr std::chrono::milliseconds kLongestCommandTime{60 * 60 * 1000};
// Output becomes progress at most this often and in pieces of this size: notifications cost the client more
// than they cost us.
inline constexpr std::chrono::milliseconds kProgressInterval{100};
inline constexpr std::size_t kProgressBytes = 8U << 10;
// A client that gives a call a second, and starts anew with each progress, must not give up on one that is silent.
inline constexpr std::chrono::milliseconds kHeartbeat{500};
// A call is hot for a moment after it came: its answer is waited for by the connection itself, this long at a time.
inline constexpr std::chrono::milliseconds kHotTime{3};
inline constexpr std::chrono::milliseconds kAnswerWait{1};
// How long the end of the session waits for what the sandbox left behind to be looked through: clients kill a server
// that is still there after 2 s.
inline constexpr std::chrono::milliseconds kFarewellWait{1'500};
// How often a call that waits for a human says so again, and how long it waits silently for a client that
// wants no progress: clients give up after 60 s.
inline constexpr std::chrono::milliseconds kReminderInterval{10'000};
inline constexpr std::chrono::milliseconds kSilentWait{45'000};

}  // namespace sallyport::mcp
