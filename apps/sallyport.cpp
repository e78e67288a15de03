// The command line.
#include "cli/cli.h"
#include "os/process.h"

int main(int argc, char** argv) {
  sallyport::os::open_standard_descriptors();
  return sallyport::cli::run(argc, argv, SALLYPORT_VERSION);
}
