// A UniqueFd has one owner: it can be moved and not copied.
#include <utility>

#include "base/unique_fd.h"

sallyport::UniqueFd moved(sallyport::UniqueFd fd) { return std::move(fd); }
#ifdef BYPASS
sallyport::UniqueFd copied(const sallyport::UniqueFd& fd) { return fd; }
#endif
