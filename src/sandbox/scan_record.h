// What the scan at exit needs to know, written down before the first command of a sandbox starts. Whoever supervises a
// sandbox may be killed with it: then the next one in that workspace, or the next warden, makes up for the scan, before
// what was left behind can be taken for the user's own.
//
// `<directory>/<maker>-<number>`, mode 0600, in a private directory. It is locked for as long as its maker lives. It
// does not wait for the disk: after a loss of power it may be gone.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "sandbox/exit_scan.h"
#include "sandbox/protect.h"

namespace sallyport::sandbox {

// What a sandbox that was running when another one started knew of the workspace before. What it put there passes for
// the user's own with the later one, which may undo what was set aside when the earlier one ended.
struct Beside {
  std::string record;
  Findings findings;
};
// Of those whose workspace is this one, above it or below it: the oldest of each workspace. To be asked before the
// search for what is the user's.
std::vector<Beside> running_beside(const std::string& directory, const std::string& workspace);

class ScanRecord {
 public:
  ScanRecord() = default;  // of nothing
  ScanRecord(std::string path, UniqueFd file) : path_(std::move(path)), file_(std::move(file)) {}
  // Of a sandbox that has no pid 1 yet.
  static Result<ScanRecord> write(const std::string& directory, const std::string& name, const Findings& findings,
                                  const std::vector<Beside>& beside = {});
  ScanRecord(ScanRecord&&) noexcept;
  ScanRecord& operator=(ScanRecord&&) noexcept;
  ~ScanRecord();  // takes it away, unless it must stay

  bool is_written() const { return static_cast<bool>(file_); }
  void belongs_to(pid_t init);              // pid 1, which is waited for before the scan is made up
  void must_stay() { is_to_stay_ = true; }  // something runs
  void scan_is_made() { is_to_stay_ = false; }
  // It was made, and nobody could be told.
  void keep_reports(const std::vector<std::string>& reports);

 private:
  std::string path_;
  UniqueFd file_;
  bool is_to_stay_ = false;
};

// The scan, and once more that of each one beside it that has ended since.
ScanReport scan_at_exit(const Findings& findings, const std::vector<Beside>& beside);

struct MissedScan {
  std::string name;                  // of the sandbox
  std::vector<std::string> reports;  // sentences
  std::string path;                  // of its record, which stays until somebody was told; empty: stays for good
};

// What runs inside chooses how many reports there are and how long their paths: one packet must hold them.
void shorten(std::vector<std::string>& reports);

// Makes the scans of all sandboxes that ended without one and whose workspace is this one, above it or below it; empty:
// wherever it is. Waits for what is still dying, for at most two seconds in all. A record that cannot be read is told,
// wherever its workspace was, and left to the user.
std::vector<MissedScan> make_up_scans(const std::string& directory, const std::string& workspace);
// Somebody was told: until then the next one to ask is told the same.
void forget(const MissedScan& missed);

}  // namespace sallyport::sandbox
