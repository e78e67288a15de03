// The audit chain as files for people and shippers: audit/audit-<first record>.jsonl, one JSON object per
// line, in order, rotated by size. The ledger is what counts: the files follow it, and catch up after
// whatever kept them from it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "ledger/chain.h"

namespace sallyport::ledger {

// The files of a directory, oldest first.
Result<std::vector<std::string>> list_export_files(int directory);
// The number of the first record that a file's name promises; 0 if it is no such name.
std::uint64_t first_record_of(std::string_view file_name);
std::string export_file_name(std::uint64_t first_record);

class Exporter {
 public:
  // Finds the place to go on from. Files that end before what was known to be on the disk, or that hold
  // something else than the ledger, are left as they are, as evidence: the export goes on in a new file
  // behind the ledger's present end, and tampering() says so.
  static Result<Exporter> open(const std::string& directory, Database& database, std::uint64_t file_bytes);

  // Writes what the ledger holds and the files do not; `fresh` are the records just committed. After a
  // failure (disk full) the next call catches up from the database.
  Status follow(Database& database, std::span<const Record> fresh);
  // Makes sure that everything up to exported() is on the disk; then synced() says so.
  Status sync();

  std::uint64_t exported() const { return next_ - 1; }
  std::uint64_t synced() const { return synced_; }
  const std::string& tampering() const { return tampering_; }
  // The last record of the files, if it is a whole one and the ledger is not that far; else 0.
  std::uint64_t ahead_of_ledger() const { return ahead_; }

 private:
  Exporter(UniqueFd directory, std::uint64_t file_bytes) : directory_(std::move(directory)), file_bytes_(file_bytes) {}
  Status resume(Database& database, std::uint64_t synced);
  Status add(const Record& record);
  Status start_file(std::uint64_t first_record);
  Status write_out();

  UniqueFd directory_, file_;
  std::uint64_t file_bytes_;
  std::uint64_t size_ = 0;    // of the file, as far as it holds whole lines of ours
  std::uint64_t next_ = 1;    // the next record to write
  std::uint64_t synced_ = 0;  // the last record known to be on the disk
  Bytes pending_;             // lines of records below next_ + pending_records_
  std::uint64_t pending_records_ = 0;
  std::uint64_t ahead_ = 0;
  std::string tampering_;
};

}  // namespace sallyport::ledger
