// The command line. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 denied, 4 warden not reachable.
#pragma once

#include <string>

namespace sallyport::cli {

int run(int argc, char** argv, const std::string& version);

}  // namespace sallyport::cli
