#include "cli/cli.h"

int main(int argc, char** argv) { return fettle::cli::run(argc, argv); }
