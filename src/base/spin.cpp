#include "base/spin.h"

#include <sched.h>

namespace sallyport {
namespace {

bool has_several_cpus() {
  cpu_set_t cpus;
  return ::sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) > 1;
}

}  // namespace

Spinner::Spinner(Mode mode) : is_useful_(mode == Mode::adaptive && has_several_cpus()) {}

}  // namespace sallyport
