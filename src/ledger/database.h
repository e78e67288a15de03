// SQLite behind values: statements are prepared once and bound by position, errors are returned.
//
// A Database belongs to one thread at a time. Nothing outside src/ledger sees SQLite's own header.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/base.h"

struct sqlite3;
struct sqlite3_stmt;

namespace sallyport::ledger {

class Database;

// One use of a prepared statement. Text and blobs that are bound must live until it goes.
class Statement {
 public:
  Statement(Statement&& other) noexcept
      : database_(other.database_), statement_(std::exchange(other.statement_, nullptr)), next_(other.next_) {}
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  Statement& operator=(Statement&&) = delete;
  ~Statement();

  // Binds the next parameter.
  Statement& bind(std::int64_t value);
  Statement& bind(std::string_view text);
  Statement& bind(ByteView blob);
  Statement& bind_null();

  Result<bool> step();  // true: a row is there
  Status run();         // to its end; rows are ignored

  std::int64_t integer(int column) const;
  std::string_view text(int column) const;  // valid until the next step
  ByteView blob(int column) const;
  bool is_null(int column) const;

 private:
  friend class Database;
  Statement(Database& database, sqlite3_stmt* statement) : database_(database), statement_(statement) {}

  Database& database_;
  sqlite3_stmt* statement_;
  int next_ = 1;
};

class Database {
 public:
  enum class Access : std::uint8_t { read, write, write_lazily };

  // To write: creates the file (0600) if absent, in WAL mode with synchronous=FULL, so that what is
  // committed is on the disk. Lazily: what is committed survives the process, and a crash of the machine only when the
  // log was folded. To read: changes nothing and works beside a writer; NOT_FOUND if there is
  // none. Does not follow a symlink at `path`. `vfs` names another SQLite VFS, for tests.
  static Result<std::unique_ptr<Database>> open(const std::string& path, Access access, const std::string& vfs = {});
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // A statement, prepared at its first use. `sql` must be a literal: it is remembered by address.
  Result<Statement> prepare(const char* sql);
  Status execute(const char* sql);   // one or many statements without parameters
  int changes() const;               // rows the last statement changed
  std::int64_t all_changes() const;  // rows that were changed since it was opened
  std::int64_t last_row() const;     // that was inserted

  bool is_in_transaction() const;
  // Whether the disk or the file failed since this was last asked: the transaction as a whole is in
  // doubt then, not only the statement.
  bool take_fault() { return std::exchange(has_fault_, false); }

  int log_pages() const { return log_pages_; }  // of the write-ahead log, at the last commit
  void fold_log();                              // moves it into the database, as far as readers let it

 private:
  friend class Statement;
  explicit Database(sqlite3* handle) : handle_(handle) {}
  Error fail(int code, const char* what);

  sqlite3* handle_;
  std::map<const char*, sqlite3_stmt*> prepared_;
  int log_pages_ = 0;
  bool has_fault_ = false;
};

}  // namespace sallyport::ledger
