// A worker as a plugin would be: ready once it has its platform; then it says when that was, and waits.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>

#include "platform/platform.h"

int main(int argc, char** argv) {
  auto platform = sallyport::platform::init_platform();
  if (!platform) {
    std::fprintf(stderr, "%s\n", platform.error().describe().c_str());
    return 1;
  }
  const auto ready = std::chrono::steady_clock::now().time_since_epoch().count();
  std::ofstream(argv[1]) << ready << std::endl;
  if (argc > 2) ::pause();
  return 0;
}
