// The command line.
#include "cli/cli.h"

int main(int argc, char** argv) { return sallyport::cli::run(argc, argv, SALLYPORT_VERSION); }
