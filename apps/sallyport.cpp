// The command line.
#include <malloc.h>

#include "cli/cli.h"
#include "os/process.h"

int main(int argc, char** argv) {
  ::mallopt(M_TRIM_THRESHOLD, 4 << 20);  // what is freed is needed again in a moment
  sallyport::os::open_standard_descriptors();
  return sallyport::cli::run(argc, argv, SALLYPORT_VERSION);
}
