// One container's mailbox on the host: its directories, by descriptors that were opened once.
//
//   in/tmp, in/new   the container's to write; a message is renamed from the first into the second
//   out              replies; the container can only read it
//
// Everything that lies in `in` is hostile: it is opened without following links or waiting, must be what a
// message is, and is read once.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"

namespace sallyport::mailbox {

// What was in a file, and which file it was.
struct Taken {
  Bytes content;
  std::uint64_t inode = 0;
  std::int64_t changed_ns = 0;
};

class Box {
 public:
  // `directory` holds in/{tmp,new} and out. An error if they are not plain directories of this user.
  static Result<std::unique_ptr<Box>> open(std::string container, std::string directory);
  Box(const Box&) = delete;
  Box& operator=(const Box&) = delete;

  const std::string& container() const { return container_; }
  int new_directory() const { return new_.get(); }

  // CONFLICT if the directories are no longer those that were opened: replaced, or gone.
  Status check() const;

  // Reads a message. NOT_FOUND: it is gone. UNAVAILABLE: not now, leave it. Anything else: refuse it.
  Result<Taken> take(const std::string& name) const;
  // Removes what was taken; if something else has come in its place, that stays.
  void discard(const std::string& name, std::uint64_t inode) const;
  // Removes whatever it is. A directory that is not empty goes back to in/tmp. False: it is still there.
  bool reject(const std::string& name) const;

  // The names in in/new, some at a time. After the last, `next` is empty until rewind().
  void rewind();
  std::vector<std::string> next();

  // What is wrong with what lies in `in` beside messages, or with in/tmp itself: more than anybody who writes messages
  // needs. Empty: nothing.
  std::string overload() const;

  // Readers see the old reply, the new one, or none: never a part. From any thread; after close_replies() it does
  // nothing, so that the directories can go.
  Status write_reply(const std::string& request_id, std::string_view json);
  void close_replies();
  void remove_reply(const std::string& request_id) const;
  bool has_reply(const std::string& request_id, std::string_view json) const;

 private:
  Box(std::string container, std::string directory)
      : container_(std::move(container)), directory_(std::move(directory)) {}

  std::string container_, directory_;
  const uid_t user_ = ::geteuid();  // whose messages must be
  UniqueFd root_, in_, tmp_, new_, out_;
  UniqueFd listing_;    // of in/new; its position is the sweep's
  std::mutex replies_;  // one is written at a time
  bool takes_replies_ = true;
};

}  // namespace sallyport::mailbox
