#include "pod/record.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <thread>

#include "os/files.h"
#include "os/process.h"
#include "pod/limits.h"
#include "wire/wire.h"

namespace sallyport::pod {
namespace {

constexpr std::string_view kLostDetails = R"({"state":"lost"})";
constexpr std::array kOwnFiles = {"pod.json", "pod.sock", "pod.log", "pod.log.1"};

constexpr int kOwnTroubles[] = {EMFILE, ENFILE, ENOMEM};

Error malformed(std::string what) {
  return Error::make(Code::conflict, "the pod's state file was tampered with or is from another version",
                     std::move(what));
}

// What lies with whoever looks, and says nothing of what it looks at.
bool is_own_trouble(const Error& error) {
  return std::any_of(std::begin(kOwnTroubles), std::end(kOwnTroubles),
                     [&](int number) { return error.details_json == Error::from_errno({}, number).details_json; });
}

}  // namespace

Status check_name(std::string_view name) {
  const auto is_fine = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_'; };
  if (name.empty() || name.size() > kMaxNameBytes || !std::all_of(name.begin(), name.end(), is_fine) ||
      name.front() == '-') {
    return Error::make(Code::invalid_params, "a pod's name has 1 to 48 of a-z, 0-9, '-' and '_', no '-' first");
  }
  return ok();
}

std::string to_json(const Record& record) {
  return wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object().member("protocol", int{wire::kHandshakeVersion}).member("name", record.name);
    json.member("address", record.address).member("boot_id", record.binding.boot_id);
    json.member("pid", record.binding.pid).member("start_time", record.binding.start_time);
    json.member("token", to_hex(record.token)).key("command").begin_array();
    for (const std::string& word : record.command) json.value(word);
    json.end_array().member("profile", record.profile).member("workspace", record.workspace);
    json.member("container", record.container).member("agent_pid", record.agent_pid).key("pid_namespace");
    json.begin_object().member("device", record.pid_namespace.device).member("inode", record.pid_namespace.inode);
    json.end_object().member("created_unix_ms", record.created_unix_ms);
    if (record.wait_status) {
      json.member("wait_status", *record.wait_status).member("exited_unix_ms", record.exited_unix_ms);
    }
    if (record.lost_unix_ms != 0) json.member("lost_unix_ms", record.lost_unix_ms);
    json.end_object();
  });
}

Result<Record> parse_record(std::string_view text) {
  wire::Decoder decoder;
  const auto document = decoder.parse(text);
  if (!document) return malformed(document.error().message);
  const wire::Value root = document->root();
  const auto string = [&](const char* key) { return std::string(root.get(key).as_string().value_or("")); };
  if (root.get("protocol").as_int() != std::int64_t{wire::kHandshakeVersion}) return malformed("protocol version");
  Record record;
  record.name = string("name");
  record.address = string("address");
  record.binding = {record.address, string("boot_id"), root.get("pid").as_uint().value_or(0),
                    root.get("start_time").as_uint().value_or(0)};
  const auto token = from_hex(string("token"));
  if (!token || token->size() != record.token.size()) return malformed("token");
  std::copy(token->begin(), token->end(), record.token.begin());
  if (!check_name(record.name) || record.address.empty() || record.binding.boot_id.empty() || record.binding.pid == 0 ||
      record.binding.pid > INT32_MAX || record.binding.start_time == 0) {
    return malformed("a field is missing");
  }
  for (const wire::Value word : root.get("command").items()) {
    record.command.emplace_back(word.as_string().value_or(""));
  }
  record.profile = string("profile");
  record.workspace = string("workspace");
  record.container = string("container");
  record.agent_pid = root.get("agent_pid").as_uint().value_or(0);
  const wire::Value place = root.get("pid_namespace");
  record.pid_namespace = {place.get("device").as_uint().value_or(0), place.get("inode").as_uint().value_or(0)};
  record.created_unix_ms = root.get("created_unix_ms").as_int().value_or(0);
  if (const auto status = root.get("wait_status").as_int()) record.wait_status = static_cast<int>(*status);
  record.exited_unix_ms = root.get("exited_unix_ms").as_int().value_or(0);
  record.lost_unix_ms = root.get("lost_unix_ms").as_int().value_or(0);
  return record;
}

// ---- Place ----

bool Place::exists() const {
  struct stat info{};
  return ::lstat(path_.c_str(), &info) == 0;
}

Result<Record> Place::read() const {
  auto text = os::read_private_file(record_path(), kMaxRecordBytes);
  if (!text) {
    struct stat info{};
    if (::lstat(record_path().c_str(), &info) != 0 && errno == ENOENT) {
      return Error::make(Code::not_found, "the pod is not published");
    }
    if (is_own_trouble(text.error())) return std::move(text).error();
    return malformed(text.error().describe());
  }
  TRY(Record record, parse_record(*text));
  if (record.name != name_ || (!record.is_tcp() && record.address != socket_path())) {
    return malformed("it speaks of another pod");
  }
  return record;
}

Status Place::write(const Record& record) const {
  // Worth nothing after a reboot, so nobody waits for the disk.
  return os::write_private_file(record_path(), to_json(record), os::Durability::unsynced);
}

Result<UniqueFd> Place::lock() const {
  UniqueFd directory{::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)};
  if (!directory) {
    const bool is_another = errno == ENOTDIR || errno == ELOOP;
    if (errno == ENOENT || is_another) return Error::make(Code::not_found, "no such pod");
    return Error::from_errno("cannot open the pod's directory", errno, path_);
  }
  if (::flock(directory.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return Error::make(Code::conflict, "the pod's daemon lives");
    return Error::from_errno("cannot lock the pod's directory", errno, path_);
  }
  struct stat info{};
  // One that was removed between our opening and locking it protects nothing.
  if (::fstat(directory.get(), &info) != 0 || info.st_nlink == 0) return Error::make(Code::not_found, "no such pod");
  return directory;
}

void Place::remove() const {
  for (const char* file : kOwnFiles) ::unlink((path_ + "/" + file).c_str());
  ::rmdir(path_.c_str());
}

std::string Place::last_words() const {
  const UniqueFd log{::open(log_path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
  std::array<char, kLastWordsBytes> text{};
  const off_t size = log ? ::lseek(log.get(), 0, SEEK_END) : 0;
  const off_t from = std::max<off_t>(0, size - static_cast<off_t>(text.size()));
  const ssize_t count = log ? ::pread(log.get(), text.data(), text.size(), from) : 0;
  std::string words(text.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
  while (!words.empty() && words.back() == '\n') words.pop_back();
  const std::size_t line = words.rfind('\n');
  if (line != std::string::npos) words.erase(0, line + 1);
  return words.empty() ? "it said nothing" : words;
}

// ---- looking ----

std::string_view to_string(Life life) {
  constexpr std::array<std::string_view, 7> kNames = {"starting", "running",  "exited", "exited",
                                                      "lost",     "tampered", "unknown"};
  return kNames.at(static_cast<std::size_t>(life));
}

namespace {

template <typename Looked>
const Error* unexpected(const Looked& looked) {
  const bool is_answer = looked || looked.error().code == Code::conflict || looked.error().code == Code::not_found;
  return is_answer ? nullptr : &looked.error();
}

// Of all that must be asked to call a pod dead.
std::optional<Error> what_kept_from_looking(const Result<UniqueFd>& lock, const Result<Record>& record) {
  if (const Error* error = unexpected(lock)) return *error;
  if (const Error* error = unexpected(record)) return *error;
  if (const auto own = os::process_start_time(::getpid()); !own) return own.error();
  return std::nullopt;
}

Sighting look_once(const Place& place, bool is_last) {
  Sighting seen;
  // First: with the lock in hand nobody writes the record any more.
  const auto lock = place.lock();
  const auto record = place.read();
  if (record) seen.record = *record;
  const bool is_bad = !record && record.error().code == Code::conflict;
  const bool is_held = !lock && lock.error().code == Code::conflict;
  const auto boot = os::boot_id();
  const bool is_alive = is_held && (!seen.record || (boot && *boot == seen.record->binding.boot_id &&
                                                     os::is_process_alive(static_cast<pid_t>(seen.record->binding.pid),
                                                                          seen.record->binding.start_time)));
  // Between the two it may have written its status and gone, and another may have moved in.
  if (!lock && !is_alive && !is_last) return look_once(place, true);
  if (const auto trouble = what_kept_from_looking(lock, record); trouble && !(is_alive && seen.record)) {
    seen.life = Life::unknown;
    seen.problem = "whether it lives cannot be seen: " + trouble->describe();
    return seen;
  }
  if (is_alive && seen.record) {
    seen.life = seen.record->wait_status ? Life::exited : Life::running;
  } else if (is_alive) {
    seen.life = is_bad ? Life::tampered : Life::starting;
  } else {
    seen.life = seen.record && seen.record->wait_status ? Life::collectable : Life::lost;
  }
  if (is_bad) {
    seen.problem = record.error().message + " (" + record.error().detail + ")";
    if (is_alive) seen.problem += "; remove " + place.record_path() + ", and the pod writes it again";
  }
  return seen;
}

}  // namespace

Sighting look(const Place& place) { return look_once(place, false); }

std::vector<std::pair<std::string, Sighting>> look_at_all(const std::string& pods_dir) {
  std::vector<std::pair<std::string, Sighting>> all;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(pods_dir.c_str()), &::closedir);
  if (!directory) return all;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string name = entry->d_name;
    if (check_name(name)) all.emplace_back(name, look(Place(pods_dir, name)));
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return all;
}

Error lost(const Place& place) {
  Error error = Error::make(
      Code::unavailable, "the pod is lost: its daemon died; its last words: " + escape_for_display(place.last_words()));
  error.details_json = kLostDetails;
  error.retryable = false;
  return error;
}

bool is_lost(const Error& error) { return error.code == Code::unavailable && error.details_json == kLostDetails; }

Result<std::optional<Record>> reach(const Place& place) {
  if (!place.exists()) {
    if (errno != ENOENT) return Error::from_errno("cannot look for the pod", errno, place.path());
    return Error::make(Code::not_found, "no such pod; see: sallyport pod ls");
  }
  Sighting seen = look(place);
  if (seen.life == Life::lost) return lost(place);
  if (seen.life == Life::tampered) {
    return Error::make(Code::conflict, "the pod's state file cannot be trusted; see: sallyport pod ls", seen.problem);
  }
  if (seen.life == Life::unknown) return Error::make(Code::io_error, "cannot look for the pod", seen.problem);
  if (seen.life == Life::collectable) {
    return Error::make(Code::conflict, "the pod has ended; its status waits: sallyport pod wait " + seen.record->name);
  }
  return std::move(seen.record);
}

Result<Record> find(const Place& place) {
  for (int i = 0; i < kFindTries; ++i) {
    TRY(auto record, reach(place));
    if (record) return std::move(*record);
    std::this_thread::sleep_for(kFindPause);
  }
  return Error::make(Code::timeout, "the pod holds its lock but has not published itself");
}

void clean_up(const std::string& pods_dir, std::int64_t now_unix_ms) {
  for (const auto& [name, seen] : look_at_all(pods_dir)) {
    if (seen.life != Life::lost && seen.life != Life::collectable) continue;
    const Place place(pods_dir, name);
    // With the lock in hand nobody lives there, and nobody can move in meanwhile.
    const auto lock = place.lock();
    auto record = place.read();
    const bool was_never_there = !record && record.error().code == Code::not_found;
    if (!lock || (!record && !was_never_there)) continue;
    const std::int64_t since = was_never_there       ? 0
                               : record->wait_status ? record->exited_unix_ms
                                                     : record->lost_unix_ms;
    if (was_never_there || (since != 0 && now_unix_ms - since > kKeepExited.count())) {
      place.remove();
    } else if (since == 0) {
      record->lost_unix_ms = now_unix_ms;
      [[maybe_unused]] const Status noted = place.write(*record);  // else the next one who looks does
    }
  }
}

}  // namespace sallyport::pod
