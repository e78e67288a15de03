#include "adapters/store.h"

#include "os/files.h"

namespace sallyport::adapters {

Error store_error(const Error& error) {
  if (error.code != Code::unavailable && error.code != Code::internal_error) return error;
  Error failed = Error::make(Code::unavailable, "the store failed; try again", error.describe());
  failed.retryable = true;
  return failed;
}

Result<ledger::Database*> Store::open() {
  if (database_) return database_.get();
  TRY(const UniqueFd directory, os::open_private_directory(directory_));
  auto opened = ledger::Database::open(directory_ + "/" + name_, access_);
  if (!opened) return store_error(opened.error());
  if (const Status made = (*opened)->execute(schema_); !made) return store_error(made.error());
  database_ = std::move(*opened);
  return database_.get();
}

}  // namespace sallyport::adapters
