// Signals, policy and reviewers of the daemon that the mailbox's tests run: what it does can be counted.
//
// Actions append "SIGNAL KEY" to the file $SALLYPORT_TEST_ACTIONS. A payload may ask for {"fail":true}, for
// {"modify":true} by the deputy, and for {"hold":true}: the human does not answer until the file
// $SALLYPORT_TEST_ACTIONS.approve exists.
#pragma once

#include "warden/warden.h"

namespace sallyport::testing {

void add_test_signals(warden::Options& options);

}  // namespace sallyport::testing
