#include "ledger/verification.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "ledger/exporter.h"
#include "ledger/layout.h"
#include "ledger/limits.h"

namespace sallyport::ledger {
namespace {

constexpr std::size_t kReadBytes = 512U << 10;

std::string number(std::uint64_t value) { return std::to_string(value); }

}  // namespace

std::string to_json(const Report& report) {
  return wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object()
        .member("intact", report.is_intact())
        .member("records", report.records)
        .member("last_seq", report.tip.seq)
        .member("last_hash", to_hex(report.tip.hash))
        .member("files", report.files)
        .member("file_records", report.file_records)
        .member("checkpoints", report.checkpoints)
        .member("finding_count", report.finding_count);
    if (!report.note.empty()) json.member("note", report.note);
    json.key("findings").begin_array();
    for (const Finding& finding : report.findings) {
      json.begin_object().member("where", finding.where).member("seq", finding.seq);
      json.member("what", finding.what).end_object();
    }
    json.end_array().end_object();
  });
}

void Verification::find(std::string where, std::uint64_t seq, std::string what) {
  ++report_.finding_count;
  if (report_.findings.size() < kMaxFindings) {
    report_.findings.push_back({std::move(where), seq, std::move(what)});
  }
}

Result<bool> Verification::step(Database& database) {
  switch (phase_) {
    case Phase::begin:
      TRY(begin(database));
      break;
    case Phase::records:
      TRY(step_records(database));
      break;
    case Phase::checkpoints:
      TRY(check_checkpoints(database));
      TRY(check_against(database));
      phase_ = Phase::files;
      break;
    case Phase::files:
      TRY(step_file(database));
      break;
    case Phase::done:
      break;
  }
  return phase_ == Phase::done;
}

Status Verification::begin(Database& database) {
  // Later records are not looked at: the chain may grow while it is checked.
  TRY(report_.tip, read_tip(database));
  TRY(const auto key, read_meta(database, kMetaKey));
  if (const auto bytes = key ? from_hex(*key) : std::nullopt; bytes && bytes->size() == key_.emplace().size()) {
    std::copy(bytes->begin(), bytes->end(), key_->begin());
  } else {
    key_.reset();
    find("ledger", 0, "the public key is missing");
  }
  if (!input_.key) {
    find("audit.key", 0, "the signing key is missing");
  } else if (key_ && *key_ != *input_.key) {
    find("audit.key", 0, "the ledger names another key");
  }
  if (!input_.exported) {
    TRY(const auto synced, read_meta(database, kMetaExported));
    std::uint64_t known = 0;
    if (synced) std::from_chars(synced->data(), synced->data() + synced->size(), known);
    input_.exported = known;
  }
  directory_ = UniqueFd(::open(input_.audit_directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (directory_) {
    TRY(names_, list_export_files(directory_.get()));
  } else if (errno != ENOENT) {
    return Error::from_errno("cannot open the audit directory", errno, input_.audit_directory);
  }
  phase_ = Phase::records;
  return ok();
}

// ---- the ledger ----

Status Verification::step_records(Database& database) {
  const auto found = read_records(database, last_seq_, one_by_one_ > 0 ? 1 : kVerifyStep);
  if (!found) {
    step_past_damage(found.error());
    return ok();
  }
  if (one_by_one_ > 0) --one_by_one_;
  const std::vector<Record>& records = *found;
  for (const Record& record : records) {
    if (record.seq > report_.tip.seq) break;
    if (record.seq != last_seq_ + 1) {
      find("ledger", last_seq_ + 1,
           "records " + number(last_seq_ + 1) + " to " + number(record.seq - 1) + " were removed");
    } else if (is_hash_known_ && record.prev != last_hash_) {
      find("ledger", record.seq, "does not continue the record before it");
    }
    is_hash_known_ = true;
    if (hash_of(record) != record.hash) find("ledger", record.seq, "was changed: its hash does not fit");
    last_seq_ = record.seq;
    last_hash_ = record.hash;
    ++report_.records;
  }
  const bool is_last = records.empty() || last_seq_ >= report_.tip.seq;
  if (is_last) phase_ = Phase::checkpoints;
  return ok();
}

// What lies behind a damaged page can still be read.
void Verification::step_past_damage(const Error& error) {
  if (std::exchange(one_by_one_, kVerifyStep) == 0) return;
  find("ledger", last_seq_ + 1, "cannot be read: " + error.describe());
  ++last_seq_;
  is_hash_known_ = false;
  if (last_seq_ >= report_.tip.seq) phase_ = Phase::checkpoints;
}

Status Verification::check_checkpoints(Database& database) {
  std::uint64_t after = 0, expected = kCheckpointEvery;
  for (;;) {
    const auto found = read_checkpoints(database, after, kVerifyStep);
    if (!found) {
      find("checkpoint", after, "those that follow cannot be read: " + found.error().describe());
      return ok();
    }
    const std::vector<Checkpoint>& checkpoints = *found;
    if (checkpoints.empty()) break;
    for (Checkpoint checkpoint : checkpoints) {
      after = checkpoint.seq;
      // One made since the walk began belongs to the next one.
      if (checkpoint.seq > report_.tip.seq) {
        TRY(const Tip now, read_tip(database));
        if (checkpoint.seq > now.seq) {
          find("ledger", checkpoint.seq,
               "was cut off: a checkpoint knows record " + number(checkpoint.seq) + ", the ledger ends at " +
                   number(now.seq));
        }
        continue;
      }
      ++report_.checkpoints;
      for (; expected < checkpoint.seq; expected += kCheckpointEvery) {
        find("checkpoint", expected, "the checkpoint of record " + number(expected) + " is missing");
      }
      if (expected == checkpoint.seq) expected += kCheckpointEvery;
      const auto hash = read_hash(database, checkpoint.seq);
      if (key_) checkpoint.key = *key_;
      if (!key_ || !checkpoint.is_genuine()) {
        find("checkpoint", checkpoint.seq, "its signature does not fit");
      } else if (hash && *hash != checkpoint.hash) {
        find("checkpoint", checkpoint.seq, "the record it names has another hash: history was rewritten");
      }
    }
  }
  for (; expected <= report_.tip.seq; expected += kCheckpointEvery) {
    find("checkpoint", expected, "the checkpoint of record " + number(expected) + " is missing");
  }
  return ok();
}

Status Verification::check_against(Database& database) {
  if (!input_.against) return ok();
  const Checkpoint& kept = *input_.against;
  if (!kept.is_genuine()) find("kept checkpoint", kept.seq, "its own signature does not fit");
  if (!key_ || kept.key != *key_) find("kept checkpoint", kept.seq, "was signed with another key than this ledger's");
  if (kept.seq == 0) return ok();
  const auto found = read_hash(database, kept.seq);
  if (!found) {
    find("kept checkpoint", kept.seq, "the record it names cannot be read: " + found.error().describe());
    return ok();
  }
  const std::optional<Digest>& hash = *found;
  if (!hash) {
    find("kept checkpoint", kept.seq,
         "the ledger was rolled back: it ends at record " + number(report_.tip.seq) + ", the kept checkpoint knows " +
             number(kept.seq));
  } else if (hash != kept.hash) {
    find("kept checkpoint", kept.seq, "history was rewritten: the record has another hash now");
  }
  return ok();
}

// ---- the files ----

Status Verification::open_next_file() {
  file_name_ = names_[next_name_++];
  file_ = UniqueFd(::openat(directory_.get(), file_name_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file_) return Error::from_errno("cannot open an audit file", errno, file_name_);
  unread_.clear();
  is_first_line_ = true;
  ++report_.files;
  return ok();
}

Status Verification::step_file(Database& database) {
  if (!file_) {
    if (next_name_ == names_.size()) {
      finish_files();
      return ok();
    }
    TRY(open_next_file());
  }
  const std::size_t before = unread_.size();
  unread_.resize(before + kReadBytes);
  ssize_t count = 0;
  do count = ::read(file_.get(), unread_.data() + before, kReadBytes);
  while (count < 0 && errno == EINTR);
  if (count < 0) return Error::from_errno("cannot read an audit file", errno, file_name_);
  unread_.resize(before + static_cast<std::size_t>(count));
  std::size_t begin = 0;
  for (std::size_t end = unread_.find('\n'); end != std::string::npos; end = unread_.find('\n', begin)) {
    check_line(database, std::string_view(unread_).substr(begin, end - begin));
    begin = end + 1;
  }
  unread_.erase(0, begin);
  if (count > 0 && unread_.size() <= kMaxLineBytes) return ok();
  // A line torn by a crash is mended at the next start; it is a fault where records were known to follow.
  const bool is_last = next_name_ == names_.size();
  if (!unread_.empty() && (!is_last || file_seq_ < *input_.exported)) {
    find(file_name_, file_seq_ + 1, "ends inside a line");
  }
  if (is_first_line_ && (!is_last || first_record_of(file_name_) <= *input_.exported)) {
    find(file_name_, first_record_of(file_name_), "was emptied");
  }
  file_.reset();
  return ok();
}

void Verification::check_line(Database& database, std::string_view line) {
  const auto record = parse_line(decoder_, line);
  if (!record) {
    find(file_name_, file_seq_ + 1, "a line is not a record as it was written: changed or inserted");
    is_first_line_ = false;
    return;
  }
  const std::uint64_t seq = record->seq;
  if (std::exchange(is_first_line_, false) && seq != first_record_of(file_name_)) {
    find(file_name_, seq, "does not begin with the record in its name");
  }
  if (seq <= file_seq_) {
    find(file_name_, seq, "comes again, or out of order");
  } else if (seq != file_seq_ + 1) {
    find(file_name_, file_seq_ + 1, "records " + number(file_seq_ + 1) + " to " + number(seq - 1) + " are missing");
  } else if (record->prev != file_hash_) {
    find(file_name_, seq, "does not continue the record before it");
  }
  if (hash_of(*record) != record->hash) find(file_name_, seq, "was changed: its hash does not fit");
  // Exported after it was committed: the ledger must know it, however new it is.
  const auto hash = read_hash(database, seq);
  if (!hash || !*hash) {
    find("ledger", seq, "was cut off or removed: the files hold record " + number(seq));
  } else if (**hash != record->hash) {
    find(file_name_, seq, "is not what the ledger holds");
  }
  file_seq_ = std::max(file_seq_, seq);
  file_hash_ = record->hash;
  ++report_.file_records;
}

void Verification::finish_files() {
  if (file_seq_ < *input_.exported) {
    find("audit", file_seq_ + 1,
         "the files end at record " + number(file_seq_) + ", but " + number(*input_.exported) + " were written");
  } else if (file_seq_ < report_.tip.seq) {
    report_.note = "records from " + number(file_seq_ + 1) + " on are not exported yet; the next start does it";
  }
  phase_ = Phase::done;
}

Result<Report> verify_state(const std::string& state_dir, const std::optional<Checkpoint>& against,
                            std::optional<std::uint64_t> exported) {
  TRY(const auto database, Database::open(database_path(state_dir), Database::Access::read));
  const auto key = SigningKey::load(key_path(state_dir));
  if (!key && key.error().code != Code::not_found) return key.error();
  Verification verification({.audit_directory = audit_directory(state_dir),
                             .key = key ? std::optional(key->public_key()) : std::nullopt,
                             .against = against,
                             .exported = exported});
  for (;;) {
    TRY(const bool is_done, verification.step(*database));
    if (is_done) return verification.report();
  }
}

}  // namespace sallyport::ledger
