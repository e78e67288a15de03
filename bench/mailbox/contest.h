// Files dropped into mailboxes and answers waited for; the same for us and for every peer.
#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace sallyport::bench {

struct Contender {
  std::string name;
  std::vector<std::string> command;  // BASE and STATE are replaced
};

// Where mailboxes and state lie while a contest runs; emptied before each.
class Ground {
 public:
  explicit Ground(const std::string& parent);
  ~Ground();
  Ground(const Ground&) = delete;
  Ground& operator=(const Ground&) = delete;

  void make_boxes(int count) const;
  void drop(int box, int number) const;
  std::string reply(int box, int number) const;
  int answered(int boxes) const;  // replies that are there
  int left(int boxes) const;      // messages that nobody took
  const std::string& root() const { return root_; }
  std::string box(int number) const { return root_ + "/boxes/box" + std::to_string(number); }

 private:
  std::string root_;
};

// Keeps every CPU from falling asleep while it lives, without taking time from anybody: on a virtual machine waking one
// costs tens of microseconds, which are the machine's and nobody's program.
class Awake {
 public:
  Awake();
  ~Awake();
  Awake(const Awake&) = delete;
  Awake& operator=(const Awake&) = delete;

 private:
  std::atomic<bool> is_over_{false};
  std::vector<std::thread> spinners_;
};

// One message at a time, `per_second` of them, each until its answer is there.
struct Paced {
  double p50_us = 0, p99_us = 0, cpu_us = 0;
  int lost = 0;
};
Paced run_paced(const Ground& ground, const Contender& contender, int count, int per_second);

// Many at once, until all are answered or nothing has come for a while: what is missing then is lost.
struct Bulk {
  double per_second = 0, seconds = 0, cpu_us = 0;
  int sent = 0, lost = 0;
};
Bulk run_burst(const Ground& ground, const Contender& contender, int boxes, int per_box);
// All of them lie there before it starts, and some more come while it works through them.
Bulk run_sweep(const Ground& ground, const Contender& contender, int boxes, int per_box, int more_per_box);
// More than the kernel's queue of notices holds, while it cannot read: what is left behind is lost.
Bulk run_overflow(const Ground& ground, const Contender& contender, int count);

}  // namespace sallyport::bench
