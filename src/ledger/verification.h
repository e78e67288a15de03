// Does the chain hold? Checks every record of the ledger, every signed checkpoint, every line of the
// exported files, and all of it against a checkpoint that was kept elsewhere. Only reads.
//
// Works in steps of bounded length, so that the writer thread can do it between its commits; another
// process does it on a read-only connection of its own (verify_state).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/base.h"
#include "ledger/chain.h"
#include "ledger/checkpoint.h"

namespace sallyport::ledger {

struct Finding {
  std::string where;  // "ledger", "checkpoint", or a file's name
  std::uint64_t seq = 0;
  std::string what;
};

struct Report {
  std::uint64_t records = 0;  // of the ledger
  Tip tip;
  std::uint64_t files = 0;
  std::uint64_t file_records = 0;
  std::uint64_t checkpoints = 0;
  std::vector<Finding> findings;    // the first kMaxFindings
  std::uint64_t finding_count = 0;  // all of them
  std::string note;                 // what is worth saying and is no fault

  bool is_intact() const { return finding_count == 0; }
};
std::string to_json(const Report& report);

class Verification {
 public:
  struct Input {
    std::string audit_directory;
    std::optional<PublicKey> key;  // of audit.key; the ledger must name the same
    std::optional<Checkpoint> against;
    // The files must reach this record. Without it: what the ledger last knew to be on the disk, because
    // a crash may have kept later ones from them.
    std::optional<std::uint64_t> exported;
  };
  explicit Verification(Input input) : input_(std::move(input)) {}

  // True when all is checked. An error means that it could not be (no file, no database), not that
  // something was found.
  Result<bool> step(Database& database);
  const Report& report() const { return report_; }

 private:
  Status begin(Database& database);
  Status step_records(Database& database);
  void step_past_damage(const Error& error);
  Status check_checkpoints(Database& database);
  Status check_against(Database& database);
  Status open_next_file();
  Status step_file(Database& database);
  void finish_files();
  void check_line(Database& database, std::string_view line);
  void find(std::string where, std::uint64_t seq, std::string what);

  enum class Phase : std::uint8_t { begin, records, checkpoints, files, done };

  Input input_;
  Report report_;
  Phase phase_ = Phase::begin;
  std::optional<PublicKey> key_;
  std::uint64_t last_seq_ = 0;  // the walk's position in the ledger
  Digest last_hash_{};
  std::int64_t one_by_one_ = 0;  // so many more, for what lies there cannot all be read
  bool is_hash_known_ = true;    // of the record before

  UniqueFd directory_, file_;
  std::vector<std::string> names_;
  std::size_t next_name_ = 0;
  std::string file_name_, unread_;
  std::uint64_t file_seq_ = 0;  // the walk's position in the files
  Digest file_hash_{};
  bool is_first_line_ = true;
  wire::Decoder decoder_;
};

// Verifies a state directory from outside, beside a running warden or without one. `exported`, if a warden
// runs, is what it says it has exported.
Result<Report> verify_state(const std::string& state_dir, const std::optional<Checkpoint>& against,
                            std::optional<std::uint64_t> exported);

}  // namespace sallyport::ledger
