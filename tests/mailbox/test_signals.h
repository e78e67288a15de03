// Signals, policy and reviewers of the daemon that the mailbox's tests run: what it does can be counted.
//
// Actions append "SIGNAL KEY" to the file $SALLYPORT_TEST_ACTIONS. A payload may ask for {"fail":true}, for
// {"modify":true} by the deputy, and for {"hold":true}: the human does not answer until the file
// $SALLYPORT_TEST_ACTIONS.approve exists.
//
// Its wall clock is ahead of the system's by as many milliseconds as $SALLYPORT_TEST_ACTIONS.clock says; the steady one
// is the system's.
#pragma once

#include "warden/warden.h"

namespace sallyport::testing {

void add_test_signals(warden::Options& options);

class ShiftedClock final : public Clock {
 public:
  SteadyTime steady() const override { return system_.steady(); }
  std::int64_t unix_millis() const override;

 private:
  SystemClock system_;
};

}  // namespace sallyport::testing
