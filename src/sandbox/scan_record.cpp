#include "sandbox/scan_record.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <map>
#include <optional>

#include "os/files.h"
#include "os/packets.h"
#include "os/paths.h"
#include "sandbox/exit_scan.h"
#include "sandbox/fields.h"
#include "sandbox/git_files.h"
#include "sandbox/held_directory.h"

namespace sallyport::sandbox {

template <typename Visitor>
void fields(Visitor& v, Link& m) {
  v(m.text, m.resolved);
}
template <typename Visitor>
void fields(Visitor& v, DoubtfulPin& m) {
  v(m.changed_at, m.has_other_names);
}
template <typename Visitor>
void fields(Visitor& v, Configured& m) {
  auto kind = static_cast<std::uint8_t>(m.kind);
  v(kind, m.path, m.resolved);
  m.kind = static_cast<Configured::Kind>(kind);
}
// What concerns the scan.
template <typename Visitor>
void fields(Visitor& v, Findings& m) {
  v(m.workspace, m.workspace_id, m.needs_scan, m.taken_at, m.is_partial, m.pin_writable, m.pins, m.doubtful_pins,
    m.mask_directories, m.configured, m.links, m.parents, m.own_settings, m.relative_hooks);
}
template <typename Visitor>
void fields(Visitor& v, Beside& m) {
  v(m.record, m.findings);
}
namespace {

using SteadyClock = std::chrono::steady_clock;

struct Record {
  std::uint32_t version = 3;
  std::int32_t pid = 0;  // of pid 1; 0 until it is there
  std::string name;
  Findings findings;
  std::vector<Beside> beside;
  bool is_scanned = false;
  std::vector<std::string> reports;
};
constexpr std::size_t kMaxRecordBytes = 64U << 20;
constexpr std::size_t kMaxRecords = 4096;              // looked at per turn
constexpr std::chrono::milliseconds kTimeToDie{2000};  // of all together

template <typename Visitor>
void fields(Visitor& v, Record& m) {
  v(m.version, m.pid, m.name, m.findings, m.beside, m.is_scanned, m.reports);
}

std::string encoded(Record record) {
  Bytes bytes;
  FieldWriter writer(bytes);
  fields(writer, record);
  return std::string(reinterpret_cast<const char*>(bytes.view().data()), bytes.size());
}

std::optional<Record> decoded(const std::string& text) {
  Record record;
  FieldReader reader(ByteView(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
  fields(reader, record);
  if (!reader.is_complete() || record.version != Record().version) return std::nullopt;
  return record;
}

// Names of records begin with it: those of this process are not missed.
const std::string& own_prefix() {
  static const std::string kPrefix = std::to_string(::getpid()) + "-" +
                                     std::to_string(std::chrono::system_clock::now().time_since_epoch().count()) + "-";
  return kPrefix;
}

// When its pid 1 has ended, everything in a sandbox has. Its number may be another's by now: then nothing is lost but
// the time.
void await_end(pid_t init, SteadyClock::time_point until) {
  if (init <= 0) return;
  const UniqueFd process{static_cast<int>(::syscall(SYS_pidfd_open, init, 0))};
  pollfd ended{process.get(), POLLIN, 0};
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - SteadyClock::now()).count();
  if (process && left > 0) ::poll(&ended, 1, static_cast<int>(left));
}

bool is_near(const std::string& one, const std::string& other) {
  return other.empty() || os::is_within(one, other) || os::is_within(other, one);
}

}  // namespace

Result<ScanRecord> ScanRecord::write(const std::string& directory, const std::string& name, const Findings& findings,
                                     const std::vector<Beside>& beside) {
  TRY(const UniqueFd place, os::open_private_directory(directory));
  static std::atomic<std::uint64_t> counter{0};  // names only have to differ within this process
  const std::string file_name = own_prefix() + std::to_string(counter++);
  UniqueFd file(::openat(place.get(), file_name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return Error::from_errno("cannot write down what the scan at exit needs", errno, directory);
  ScanRecord record(directory + "/" + file_name, std::move(file));
  const std::string text = encoded({.name = name, .findings = findings, .beside = beside, .reports = {}});
  const bool is_locked = ::flock(record.file_.get(), LOCK_EX | LOCK_NB) == 0;
  if (!is_locked || ::write(record.file_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return Error::from_errno("cannot write down what the scan at exit needs", errno, directory);
  }
  return record;
}

ScanRecord::ScanRecord(ScanRecord&& other) noexcept { *this = std::move(other); }

ScanRecord& ScanRecord::operator=(ScanRecord&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(file_, other.file_);
  std::swap(is_to_stay_, other.is_to_stay_);
  return *this;
}

ScanRecord::~ScanRecord() {
  if (file_ && !is_to_stay_) ::unlink(path_.c_str());
}

void ScanRecord::belongs_to(pid_t init) {
  const std::int32_t pid = init;
  const auto at = static_cast<off_t>(sizeof(Record::version));
  if (!file_ || ::pwrite(file_.get(), &pid, sizeof(pid), at) == ssize_t{sizeof(pid)}) return;
  ::unlink(path_.c_str());
  file_.reset();
}

void ScanRecord::keep_reports(const std::vector<std::string>& reports) {
  is_to_stay_ = false;
  if (!file_ || reports.empty()) return;
  auto record = decoded(read_small_file(path_, kMaxRecordBytes).value_or(""));
  if (!record) return;
  record->is_scanned = true;
  record->reports = reports;
  if (os::write_private_file(path_, encoded(*record), os::Durability::unsynced)) is_to_stay_ = true;
}

namespace {

// Its maker lives, and will make its scan.
bool is_held(int record) { return ::flock(record, LOCK_SH | LOCK_NB) != 0; }

void add(std::vector<std::string>& to, const std::vector<std::string>& more) {
  std::copy_if(more.begin(), more.end(), std::back_inserter(to),
               [&](const std::string& line) { return std::find(to.begin(), to.end(), line) == to.end(); });
}

}  // namespace

std::vector<Beside> running_beside(const std::string& directory, const std::string& workspace) {
  std::map<std::string, Beside> oldest;
  const auto consider = [&](Beside&& one) {
    if (!one.findings.needs_scan || !is_near(one.findings.workspace, workspace)) return;
    const auto [known, is_first] = oldest.try_emplace(one.findings.workspace, one);
    if (!is_first && one.findings.taken_at < known->second.findings.taken_at) known->second = std::move(one);
  };
  const auto place = os::open_private_directory(directory);
  const HeldDirectory records(UniqueFd(place ? ::dup(place->get()) : -1), directory);
  for (const std::string& name : records.list(kMaxRecords).value_or(std::vector<std::string>())) {
    const UniqueFd file(::openat(records.fd(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file || !is_held(file.get())) continue;
    auto record = decoded(read_small_file_at(records.fd(), name.c_str(), kMaxRecordBytes).value_or(""));
    if (!record) continue;
    consider({records.path_of(name), std::move(record->findings)});
    for (Beside& further : record->beside) consider(std::move(further));
  }
  std::vector<Beside> all;
  for (auto& [path, one] : oldest) all.push_back(std::move(one));
  return all;
}

ScanReport scan_at_exit(const Findings& findings, const std::vector<Beside>& beside) {
  ScanReport report = scan_at_exit(findings);
  for (const Beside& one : beside) {
    const UniqueFd file(::open(one.record.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (file && is_held(file.get())) continue;
    const ScanReport again = scan_at_exit(one.findings);
    add(report.quarantined, again.quarantined);
    add(report.suspicious, again.suspicious);
    add(report.notes, again.notes);
  }
  return report;
}

void shorten(std::vector<std::string>& reports) {
  constexpr std::size_t kMaxReports = 100;
  constexpr std::size_t kMaxReportBytes = 4096;
  constexpr std::size_t kMaxBytes = os::kMaxPacketBytes / 2;
  std::size_t kept = 0;
  for (std::size_t bytes = 0; kept < reports.size() && kept < kMaxReports; ++kept) {
    if (reports[kept].size() > kMaxReportBytes) reports[kept].replace(kMaxReportBytes, std::string::npos, "...");
    bytes += reports[kept].size();
    if (bytes > kMaxBytes) break;
  }
  if (kept == reports.size()) return;
  const std::size_t more = reports.size() - kept;
  reports.resize(kept);
  reports.push_back("and " + std::to_string(more) + " more");
}

namespace {

std::optional<MissedScan> make_up(const HeldDirectory& records, const std::string& name, const std::string& workspace,
                                  SteadyClock::time_point until) {
  UniqueFd file(::openat(records.fd(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info{};
  // Locked: its maker lives. Without a name: its maker has just made the scan.
  if (!file || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return std::nullopt;
  if (::fstat(file.get(), &info) != 0 || info.st_nlink == 0) return std::nullopt;
  const std::string path = records.path_of(name);
  ScanRecord held(path, std::move(file));
  // Its maker was killed before it wrote anything: nothing ever ran.
  if (info.st_size == 0) return std::nullopt;
  held.must_stay();
  const auto text = read_small_file_at(records.fd(), name.c_str(), kMaxRecordBytes);
  auto record = text ? decoded(*text) : std::nullopt;
  if (!record) {
    return MissedScan{"unknown",
                      {path + " cannot be read, so that what it left in its workspace was not looked at; remove the "
                              "file once you have"},
                      {}};
  }
  if (!is_near(record->findings.workspace, workspace)) return std::nullopt;
  if (!record->is_scanned) {
    await_end(record->pid, until);
    record->reports = scan_at_exit(record->findings, record->beside).sentences();
    held.keep_reports(record->reports);
  }
  if (record->reports.empty()) return std::nullopt;
  return MissedScan{record->name, record->reports, path};
}

}  // namespace

std::vector<MissedScan> make_up_scans(const std::string& directory, const std::string& workspace) {
  std::vector<MissedScan> all;
  const auto place = os::open_private_directory(directory);
  if (!place) return all;
  const HeldDirectory records(UniqueFd(::dup(place->get())), directory);
  const auto names = records.list(kMaxRecords);
  if (!names) return all;
  const auto until = SteadyClock::now() + kTimeToDie;
  for (const std::string& name : *names) {
    if (name.starts_with('.') || name.starts_with(own_prefix())) continue;
    if (auto missed = make_up(records, name, workspace, until)) all.push_back(std::move(*missed));
  }
  return all;
}

void forget(const MissedScan& missed) {
  if (!missed.path.empty()) ::unlink(missed.path.c_str());
}

}  // namespace sallyport::sandbox
