// A SQLite file of the adapters', opened on first use by the one thread that uses it.
#pragma once

#include <memory>
#include <string>

#include "base/base.h"
#include "ledger/database.h"

namespace sallyport::adapters {

// What the database says about itself is for the log; a caller learns that the store failed.
Error store_error(const Error& error);

class Store {
 public:
  // `schema` creates what is missing; it must be a literal.
  Store(std::string directory, std::string name, const char* schema, ledger::Database::Access access)
      : directory_(std::move(directory)), name_(std::move(name)), schema_(schema), access_(access) {}

  Result<ledger::Database*> open();
  // All of `work` or nothing of it.
  template <typename Work>
  auto transaction(Work&& work) -> decltype(work(std::declval<ledger::Database&>())) {
    TRY(ledger::Database * database, open());
    if (const Status begun = database->execute("BEGIN IMMEDIATE"); !begun) return store_error(begun.error());
    auto result = work(*database);
    if (const Status ended = database->execute(result ? "COMMIT" : "ROLLBACK"); !ended && result) {
      [[maybe_unused]] const Status rolled_back = database->execute("ROLLBACK");
      return store_error(ended.error());
    }
    if (database->log_pages() > kFoldPages) database->fold_log();
    return result;
  }

 private:
  static constexpr int kFoldPages = 1000;
  std::string directory_, name_;
  const char* schema_;
  ledger::Database::Access access_;
  std::unique_ptr<ledger::Database> database_;
};

}  // namespace sallyport::adapters
