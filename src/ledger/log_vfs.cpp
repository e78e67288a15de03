#include "ledger/log_vfs.h"

#include <sqlite3.h>

#include <list>
#include <memory>
#include <mutex>

#include "ledger/limits.h"

namespace sallyport::ledger {
namespace {

// The file underneath lies behind ours in the block of memory that SQLite gives.
struct LogFile {
  sqlite3_file own;
  Bytes* pending;
  sqlite3_int64 at;  // where the first pending byte belongs
};
constexpr std::size_t kFileBytes = (sizeof(LogFile) + 15) / 16 * 16;

LogFile& log(sqlite3_file* file) { return *reinterpret_cast<LogFile*>(file); }
sqlite3_file* base_of(sqlite3_file* file) {
  return reinterpret_cast<sqlite3_file*>(reinterpret_cast<std::uint8_t*>(file) + kFileBytes);
}

int write_out(sqlite3_file* file) {
  Bytes& pending = *log(file).pending;
  if (pending.empty()) return SQLITE_OK;
  const int code =
      base_of(file)->pMethods->xWrite(base_of(file), pending.data(), static_cast<int>(pending.size()), log(file).at);
  // What could not be written belongs to a commit that fails now.
  pending.clear();
  return code;
}

int write_file(sqlite3_file* file, const void* from, int size, sqlite3_int64 at) {
  Bytes& pending = *log(file).pending;
  const bool follows = log(file).at + static_cast<sqlite3_int64>(pending.size()) == at;
  if (!follows || pending.size() >= kMaxGatheredBytes) {
    if (const int code = write_out(file); code != SQLITE_OK) return code;
  }
  if (pending.empty()) log(file).at = at;
  pending.append(ByteView(static_cast<const std::uint8_t*>(from), static_cast<std::size_t>(size)));
  return SQLITE_OK;
}

// Calls a method of the file underneath, after it has got all that is pending.
template <auto kMethod, typename... Arguments>
int pass_on(sqlite3_file* file, Arguments... arguments) {
  if (const int code = write_out(file); code != SQLITE_OK) return code;
  return (base_of(file)->pMethods->*kMethod)(base_of(file), arguments...);
}

int close_file(sqlite3_file* file) {
  const int written = write_out(file);
  delete log(file).pending;
  const int closed = base_of(file)->pMethods->xClose(base_of(file));
  return written != SQLITE_OK ? written : closed;
}

int sector_size(sqlite3_file* file) { return base_of(file)->pMethods->xSectorSize(base_of(file)); }
int characteristics(sqlite3_file* file) { return base_of(file)->pMethods->xDeviceCharacteristics(base_of(file)); }

using Io = sqlite3_io_methods;
// The log is neither locked nor mapped: that is done with the database itself.
constexpr Io kMethods = {.iVersion = 1,
                         .xClose = close_file,
                         .xRead = pass_on<&Io::xRead, void*, int, sqlite3_int64>,
                         .xWrite = write_file,
                         .xTruncate = pass_on<&Io::xTruncate, sqlite3_int64>,
                         .xSync = pass_on<&Io::xSync, int>,
                         .xFileSize = pass_on<&Io::xFileSize, sqlite3_int64*>,
                         .xLock = pass_on<&Io::xLock, int>,
                         .xUnlock = pass_on<&Io::xUnlock, int>,
                         .xCheckReservedLock = pass_on<&Io::xCheckReservedLock, int*>,
                         .xFileControl = pass_on<&Io::xFileControl, int, void*>,
                         .xSectorSize = sector_size,
                         .xDeviceCharacteristics = characteristics,
                         .xShmMap = nullptr,
                         .xShmLock = nullptr,
                         .xShmBarrier = nullptr,
                         .xShmUnmap = nullptr,
                         .xFetch = nullptr,
                         .xUnfetch = nullptr};

int open_file(sqlite3_vfs* vfs, sqlite3_filename name, sqlite3_file* file, int flags, int* out) {
  auto* base = static_cast<sqlite3_vfs*>(vfs->pAppData);
  if ((flags & SQLITE_OPEN_WAL) == 0) return base->xOpen(base, name, file, flags, out);
  file->pMethods = nullptr;
  const int code = base->xOpen(base, name, base_of(file), flags, out);
  if (code != SQLITE_OK) return code;
  log(file).pending = new Bytes;
  log(file).at = 0;
  file->pMethods = &kMethods;
  return SQLITE_OK;
}

// SQLite keeps these for as long as the process lives.
struct Registered {
  std::string base, name;
  sqlite3_vfs vfs;
};

}  // namespace

Result<std::string> register_log_vfs(const std::string& base) {
  static std::mutex mutex;
  static std::list<Registered> all;
  const std::lock_guard lock(mutex);
  for (const Registered& known : all) {
    if (known.base == base) return known.name;
  }
  sqlite3_vfs* underneath = ::sqlite3_vfs_find(base.empty() ? nullptr : base.c_str());
  if (underneath == nullptr) return Error::make(Code::internal_error, "the ledger failed", "there is no VFS " + base);
  Registered& added = all.emplace_back(Registered{base, "sallyport-log-" + base, *underneath});
  added.vfs.zName = added.name.c_str();
  added.vfs.szOsFile = static_cast<int>(kFileBytes) + underneath->szOsFile;
  added.vfs.pAppData = underneath;
  added.vfs.xOpen = open_file;
  if (::sqlite3_vfs_register(&added.vfs, 0) != SQLITE_OK) {
    all.pop_back();
    return Error::make(Code::internal_error, "the ledger failed", "a VFS cannot be registered");
  }
  return added.name;
}

}  // namespace sallyport::ledger
