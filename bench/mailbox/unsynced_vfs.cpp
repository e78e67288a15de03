// SQLite's own VFS without its fsyncs: what the same work costs where nothing needs to last.
#include <sqlite3.h>

namespace {

sqlite3_vfs* base = nullptr;
sqlite3_vfs unsynced{};

int no_sync(sqlite3_file*, int) { return SQLITE_OK; }

int open_file(sqlite3_vfs*, sqlite3_filename name, sqlite3_file* file, int flags, int* out) {
  const int opened = base->xOpen(base, name, file, flags, out);
  if (opened == SQLITE_OK && file->pMethods != nullptr) {
    // Kinds of files have tables of their own; each open file gets a copy of its.
    auto* methods = new sqlite3_io_methods(*file->pMethods);
    methods->xSync = no_sync;
    file->pMethods = methods;
  }
  return opened;
}

}  // namespace

void register_unsynced_vfs() {
  // As the ledger does, which comes too late here.
  sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  base = sqlite3_vfs_find(nullptr);
  unsynced = *base;
  unsynced.zName = "unsynced";
  unsynced.xOpen = open_file;
  sqlite3_vfs_register(&unsynced, 0);
}
