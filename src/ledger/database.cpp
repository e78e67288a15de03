#include "ledger/database.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "ledger/log_vfs.h"
#include "os/paths.h"

namespace sallyport::ledger {
namespace {

constexpr int kBusyMillis = 5'000;

// Folding is done by hand, after the answers.
constexpr const char* kWriterSetup =
    "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;"
    "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA temp_store=MEMORY;";
constexpr const char* kReaderSetup = "PRAGMA query_only=ON; PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON;";

// SQLite refuses a symlink anywhere in a path that must have none at its end: resolve the directory.
Result<std::string> real_path(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return Error::make(Code::invalid_params, "the ledger's path must be absolute");
  const auto directory = os::real_path(path.substr(0, slash + 1));
  if (!directory) return Error::from_errno("cannot find the ledger's directory", errno, path);
  return *directory + path.substr(slash);
}

Status create_private(const std::string& path) {
  const UniqueFd fd{::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
  if (!fd) return Error::from_errno("cannot create the ledger", errno, path);
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return Error::from_errno("cannot stat the ledger", errno, path);
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 077) != 0) {
    return Error::make(Code::conflict, path + " must be a regular file of yours with mode 0600");
  }
  return ok();
}

// Nobody asks how much memory SQLite has: counting it takes a lock for every piece. Before its first use in a process,
// or it has no effect.
void count_no_memory() { [[maybe_unused]] static const int kAnswer = ::sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0); }

bool is_fault(int code) {
  switch (code & 0xff) {
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_NOMEM:
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
    case SQLITE_INTERRUPT:
      return true;
    default:
      return false;
  }
}

}  // namespace

// ---- Statement ----

Statement::~Statement() {
  if (statement_ == nullptr) return;
  ::sqlite3_reset(statement_);
  ::sqlite3_clear_bindings(statement_);
}

Statement& Statement::bind(std::int64_t value) {
  ::sqlite3_bind_int64(statement_, next_++, value);
  return *this;
}

Statement& Statement::bind(std::string_view text) {
  // A null pointer would bind NULL: an empty text is not that.
  ::sqlite3_bind_text(statement_, next_++, text.empty() ? "" : text.data(), static_cast<int>(text.size()),
                      SQLITE_STATIC);
  return *this;
}

Statement& Statement::bind(ByteView blob) {
  if (blob.empty()) {
    ::sqlite3_bind_zeroblob(statement_, next_++, 0);
  } else {
    ::sqlite3_bind_blob(statement_, next_++, blob.data(), static_cast<int>(blob.size()), SQLITE_STATIC);
  }
  return *this;
}

Statement& Statement::bind_null() {
  ::sqlite3_bind_null(statement_, next_++);
  return *this;
}

Result<bool> Statement::step() {
  const int code = ::sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return database_.fail(code, "the ledger failed");
}

Status Statement::run() {
  for (;;) {
    TRY(const bool has_row, step());
    if (!has_row) return ok();
  }
}

std::int64_t Statement::integer(int column) const { return ::sqlite3_column_int64(statement_, column); }

std::string_view Statement::text(int column) const {
  const unsigned char* data = ::sqlite3_column_text(statement_, column);
  if (data == nullptr) return {};
  return {reinterpret_cast<const char*>(data), static_cast<std::size_t>(::sqlite3_column_bytes(statement_, column))};
}

ByteView Statement::blob(int column) const {
  const void* data = ::sqlite3_column_blob(statement_, column);
  if (data == nullptr) return {};
  return {static_cast<const std::uint8_t*>(data), static_cast<std::size_t>(::sqlite3_column_bytes(statement_, column))};
}

bool Statement::is_null(int column) const { return ::sqlite3_column_type(statement_, column) == SQLITE_NULL; }

// ---- Database ----

Result<std::unique_ptr<Database>> Database::open(const std::string& path, Access access, const std::string& vfs) {
  count_no_memory();
  TRY(const std::string real, real_path(path));
  const bool writes = access != Access::read, is_lazy = access == Access::write_lazily;
  if (writes) {
    TRY(create_private(real));
  } else if (::access(real.c_str(), F_OK) != 0) {
    if (errno != ENOENT) return Error::from_errno("cannot read the ledger", errno, path);
    return Error::make(Code::not_found, "there is no ledger here yet", path);
  }
  sqlite3* handle = nullptr;
  const int flags =
      (writes ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY) | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;
  // What gathers a commit until it is synced is not for those that are not.
  std::string over = vfs;
  if (!is_lazy) {
    TRY(over, register_log_vfs(vfs));
  }
  const int code = ::sqlite3_open_v2(real.c_str(), &handle, flags, over.empty() ? nullptr : over.c_str());
  std::unique_ptr<Database> database(new Database(handle));
  if (code != SQLITE_OK) return database->fail(code, "cannot open the ledger");
  ::sqlite3_extended_result_codes(handle, 1);
  ::sqlite3_busy_timeout(handle, kBusyMillis);
  ::sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  TRY(database->execute(writes ? kWriterSetup : kReaderSetup));
  if (writes) {
    TRY(database->execute(is_lazy ? "PRAGMA synchronous=NORMAL" : "PRAGMA synchronous=FULL"));
    // Behind the setup: wal_autocheckpoint takes the only hook for itself.
    ::sqlite3_wal_hook(
        handle,
        [](void* self, sqlite3*, const char*, int pages) {
          static_cast<Database*>(self)->log_pages_ = pages;
          return SQLITE_OK;
        },
        database.get());
  }
  database->take_fault();
  return database;
}

Database::~Database() {
  for (const auto& [sql, statement] : prepared_) ::sqlite3_finalize(statement);
  ::sqlite3_close(handle_);
}

Error Database::fail(int code, const char* what) {
  if (is_fault(code)) has_fault_ = true;
  Error error = Error::make(is_fault(code) ? Code::unavailable : Code::internal_error, what,
                            handle_ == nullptr ? ::sqlite3_errstr(code) : ::sqlite3_errmsg(handle_));
  error.detail += " (" + std::to_string(code) + ")";
  error.retryable = is_fault(code);
  return error;
}

Result<Statement> Database::prepare(const char* sql) {
  sqlite3_stmt*& statement = prepared_[sql];
  if (statement == nullptr) {
    const int code = ::sqlite3_prepare_v3(handle_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
    if (code != SQLITE_OK) return fail(code, "the ledger failed");
  }
  return Statement(*this, statement);
}

Status Database::execute(const char* sql) {
  const int code = ::sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return fail(code, "the ledger failed");
  return ok();
}

int Database::changes() const { return ::sqlite3_changes(handle_); }
std::int64_t Database::all_changes() const { return ::sqlite3_total_changes64(handle_); }
std::int64_t Database::last_row() const { return sqlite3_last_insert_rowid(handle_); }

bool Database::is_in_transaction() const { return ::sqlite3_get_autocommit(handle_) == 0; }

void Database::fold_log() {
  // What cannot be folded now stays in the log and is folded later.
  if (::sqlite3_wal_checkpoint_v2(handle_, nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr) == SQLITE_OK) {
    log_pages_ = 0;
  }
}

}  // namespace sallyport::ledger
