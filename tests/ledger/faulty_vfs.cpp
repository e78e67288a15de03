#include "faulty_vfs.h"

#include <sqlite3.h>

#include <cstddef>
#include <new>

namespace sallyport::ledger {
namespace {

Faults faults;
sqlite3_vfs* real_vfs = nullptr;
sqlite3_vfs own_vfs;
sqlite3_io_methods own_methods;

// The real file lies behind ours in the same block of memory.
struct File {
  sqlite3_file base;
  alignas(8) unsigned char real[1];  // what SQLite gives its files
};
sqlite3_file* real(sqlite3_file* file) { return reinterpret_cast<sqlite3_file*>(reinterpret_cast<File*>(file)->real); }

int close_file(sqlite3_file* f) { return real(f)->pMethods->xClose(real(f)); }
int read_file(sqlite3_file* f, void* to, int size, sqlite3_int64 at) {
  return real(f)->pMethods->xRead(real(f), to, size, at);
}
int write_file(sqlite3_file* f, const void* from, int size, sqlite3_int64 at) {
  ++faults.writes;
  if (const int fault = faults.on_write) return fault;
  return real(f)->pMethods->xWrite(real(f), from, size, at);
}
int truncate_file(sqlite3_file* f, sqlite3_int64 size) { return real(f)->pMethods->xTruncate(real(f), size); }
int sync_file(sqlite3_file* f, int flags) {
  ++faults.syncs;
  if (const int fault = faults.on_sync) return fault;
  return real(f)->pMethods->xSync(real(f), flags);
}
int file_size(sqlite3_file* f, sqlite3_int64* size) { return real(f)->pMethods->xFileSize(real(f), size); }
int lock_file(sqlite3_file* f, int level) { return real(f)->pMethods->xLock(real(f), level); }
int unlock_file(sqlite3_file* f, int level) { return real(f)->pMethods->xUnlock(real(f), level); }
int check_lock(sqlite3_file* f, int* out) { return real(f)->pMethods->xCheckReservedLock(real(f), out); }
int control(sqlite3_file* f, int op, void* argument) { return real(f)->pMethods->xFileControl(real(f), op, argument); }
int sector_size(sqlite3_file* f) { return real(f)->pMethods->xSectorSize(real(f)); }
int characteristics(sqlite3_file* f) { return real(f)->pMethods->xDeviceCharacteristics(real(f)); }
int shm_map(sqlite3_file* f, int page, int size, int extend, void volatile** out) {
  return real(f)->pMethods->xShmMap(real(f), page, size, extend, out);
}
int shm_lock(sqlite3_file* f, int offset, int count, int flags) {
  return real(f)->pMethods->xShmLock(real(f), offset, count, flags);
}
void shm_barrier(sqlite3_file* f) { real(f)->pMethods->xShmBarrier(real(f)); }
int shm_unmap(sqlite3_file* f, int remove) { return real(f)->pMethods->xShmUnmap(real(f), remove); }

int open_file(sqlite3_vfs*, const char* name, sqlite3_file* f, int flags, int* out) {
  f->pMethods = nullptr;
  const int code = real_vfs->xOpen(real_vfs, name, real(f), flags, out);
  if (code == SQLITE_OK) f->pMethods = &own_methods;
  return code;
}

}  // namespace

Faults& faulty_vfs() {
  if (real_vfs != nullptr) return faults;
  real_vfs = ::sqlite3_vfs_find(nullptr);
  own_methods = {.iVersion = 2,
                 .xClose = close_file,
                 .xRead = read_file,
                 .xWrite = write_file,
                 .xTruncate = truncate_file,
                 .xSync = sync_file,
                 .xFileSize = file_size,
                 .xLock = lock_file,
                 .xUnlock = unlock_file,
                 .xCheckReservedLock = check_lock,
                 .xFileControl = control,
                 .xSectorSize = sector_size,
                 .xDeviceCharacteristics = characteristics,
                 .xShmMap = shm_map,
                 .xShmLock = shm_lock,
                 .xShmBarrier = shm_barrier,
                 .xShmUnmap = shm_unmap,
                 .xFetch = nullptr,
                 .xUnfetch = nullptr};
  own_vfs = *real_vfs;
  own_vfs.zName = kFaultyVfs;
  own_vfs.szOsFile = static_cast<int>(offsetof(File, real)) + real_vfs->szOsFile;
  own_vfs.xOpen = open_file;
  ::sqlite3_vfs_register(&own_vfs, 0);
  return faults;
}

}  // namespace sallyport::ledger
