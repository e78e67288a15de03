#include "ledger/exporter.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>

#include "ledger/limits.h"
#include "os/files.h"

namespace sallyport::ledger {
namespace {

constexpr std::string_view kPrefix = "audit-", kSuffix = ".jsonl";
constexpr std::int64_t kCatchUpRecords = 1000;
constexpr std::size_t kWriteAtBytes = 256U << 10;

struct LastLine {
  std::uint64_t whole_bytes = 0;  // up to and with the last newline
  std::string text;               // of the last whole line; empty if there is none
};

Result<LastLine> read_last_line(int file) {
  struct stat info{};
  if (::fstat(file, &info) != 0) return Error::from_errno("cannot stat an audit file", errno);
  const auto size = static_cast<std::uint64_t>(info.st_size);
  // Two lines at their longest: the last whole one is in there, and a torn one behind it.
  const std::uint64_t from = size > 2 * kMaxLineBytes ? size - 2 * kMaxLineBytes : 0;
  std::string tail(size - from, '\0');
  std::size_t have = 0;
  while (have < tail.size()) {
    const ssize_t count = ::pread(file, tail.data() + have, tail.size() - have, static_cast<off_t>(from + have));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return Error::from_errno("cannot read an audit file", count < 0 ? errno : EIO);
    have += static_cast<std::size_t>(count);
  }
  LastLine last;
  const std::size_t end = tail.rfind('\n');
  if (end == std::string::npos) return last;
  last.whole_bytes = from + end + 1;
  const std::size_t before = end == 0 ? std::string::npos : tail.rfind('\n', end - 1);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  last.text = tail.substr(begin, end - begin);
  return last;
}

}  // namespace

std::string export_file_name(std::uint64_t first_record) {
  std::string number = std::to_string(first_record);
  number.insert(0, 12 - std::min<std::size_t>(number.size(), 12), '0');
  return std::string(kPrefix) + number + std::string(kSuffix);
}

std::uint64_t first_record_of(std::string_view file_name) {
  if (!file_name.starts_with(kPrefix) || !file_name.ends_with(kSuffix)) return 0;
  const std::string_view number = file_name.substr(kPrefix.size(), file_name.size() - kPrefix.size() - kSuffix.size());
  std::uint64_t first = 0;
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), first);
  if (parsed.ec != std::errc() || export_file_name(first) != file_name) return 0;
  return first;
}

Result<std::vector<std::string>> list_export_files(int directory) {
  UniqueFd again{::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  DIR* stream = again ? ::fdopendir(again.get()) : nullptr;
  if (stream == nullptr) return Error::from_errno("cannot list the audit directory", errno);
  again.release();
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(stream)) {
    if (first_record_of(entry->d_name) != 0) names.emplace_back(entry->d_name);
  }
  ::closedir(stream);
  std::sort(names.begin(), names.end(),
            [](const auto& a, const auto& b) { return first_record_of(a) < first_record_of(b); });
  return names;
}

Result<Exporter> Exporter::open(const std::string& directory, Database& database, std::uint64_t file_bytes) {
  TRY(UniqueFd fd, os::open_private_directory(directory));
  Exporter exporter(std::move(fd), file_bytes);
  TRY(const auto synced, read_meta(database, kMetaExported));
  std::uint64_t known = 0;
  if (synced) std::from_chars(synced->data(), synced->data() + synced->size(), known);
  TRY(exporter.resume(database, known));
  return exporter;
}

Status Exporter::resume(Database& database, std::uint64_t synced) {
  synced_ = synced;
  TRY(auto names, list_export_files(directory_.get()));
  wire::Decoder decoder;
  std::uint64_t last_seq = 0;
  bool is_ours = true;
  while (!names.empty() && last_seq == 0 && is_ours) {
    UniqueFd file{::openat(directory_.get(), names.back().c_str(), O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW)};
    if (!file) return Error::from_errno("cannot open an audit file", errno, names.back());
    TRY(const LastLine last, read_last_line(file.get()));
    if (last.text.empty()) {
      // Made just before a crash, and nothing whole in it: taken away, unless more was there once.
      is_ours = first_record_of(names.back()) > synced && last.whole_bytes == 0;
      if (is_ours) ::unlinkat(directory_.get(), names.back().c_str(), 0);
      names.pop_back();
      continue;
    }
    const auto record = parse_line(decoder, last.text);
    is_ours = false;
    if (!record) break;
    TRY(const auto hash, read_hash(database, record->seq));
    TRY(const Tip tip, read_tip(database));
    if (record->seq > tip.seq && hash_of(*record) == record->hash) ahead_ = record->seq;
    is_ours = hash == record->hash && hash_of(*record) == record->hash;
    // A line torn by a crash is written again, whole.
    if (is_ours && ::ftruncate(file.get(), static_cast<off_t>(last.whole_bytes)) != 0) {
      return Error::from_errno("cannot mend an audit file", errno, names.back());
    }
    last_seq = record->seq;
    size_ = last.whole_bytes;
    file_ = std::move(file);
  }
  if (is_ours && last_seq >= synced) {
    next_ = last_seq + 1;
    return ok();
  }
  TRY(const Tip tip, read_tip(database));
  tampering_ = "the audit files do not end where the ledger left them; see sallyport audit verify";
  next_ = tip.seq + 1;
  file_.reset();
  return ok();
}

Status Exporter::follow(Database& database, std::span<const Record> fresh) {
  pending_.clear();
  pending_records_ = 0;
  if (!fresh.empty() && fresh.front().seq == next_) {
    for (const Record& record : fresh) TRY(add(record));
    return write_out();
  }
  for (;;) {
    TRY(const auto records, read_records(database, next_ + pending_records_ - 1, kCatchUpRecords));
    if (records.empty()) return write_out();
    for (const Record& record : records) TRY(add(record));
  }
}

Status Exporter::add(const Record& record) {
  if (!file_ || size_ + pending_.size() >= file_bytes_) {
    TRY(write_out());
    TRY(start_file(record.seq));
  } else if (pending_.size() >= kWriteAtBytes) {
    TRY(write_out());
  }
  wire::JsonWriter json(pending_);
  write_record(json, record);
  pending_.push_back('\n');
  ++pending_records_;
  return ok();
}

Status Exporter::start_file(std::uint64_t first_record) {
  if (file_) TRY(sync());
  const std::string name = export_file_name(first_record);
  UniqueFd file{
      ::openat(directory_.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600)};
  if (!file) return Error::from_errno("cannot create an audit file", errno, name);
  if (::fsync(directory_.get()) != 0) {
    const int why = errno;
    ::unlinkat(directory_.get(), name.c_str(), 0);  // or its name would be in the way of the next try
    return Error::from_errno("cannot write the audit directory", why);
  }
  file_ = std::move(file);
  size_ = 0;
  return ok();
}

Status Exporter::write_out() {
  std::size_t done = 0;
  while (done < pending_.size()) {
    const ssize_t count = ::write(file_.get(), pending_.data() + done, pending_.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int why = errno;
      // No half line stays behind: what follows would be glued to it.
      if (::ftruncate(file_.get(), static_cast<off_t>(size_)) != 0) file_.reset();
      pending_.clear();
      pending_records_ = 0;
      return Error::from_errno("cannot write an audit file", why);
    }
    done += static_cast<std::size_t>(count);
  }
  size_ += pending_.size();
  next_ += pending_records_;
  pending_.clear();
  pending_records_ = 0;
  return ok();
}

Status Exporter::sync() {
  if (file_ && ::fdatasync(file_.get()) != 0) return Error::from_errno("cannot sync an audit file", errno);
  synced_ = exported();
  return ok();
}

}  // namespace sallyport::ledger
