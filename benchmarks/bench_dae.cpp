// Convolutions of ResNet-18 on the simulated accelerator, with and without virtual threads.

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "dae/experiment.h"

using namespace fettle::bench;

int main(int argc, char** argv) {
  bool search = false;
  CLI::App app("The simulated accelerator's utilisation on ResNet-18, with and without virtual threads.");
  app.add_flag("--search", search, "search tiles and print them, instead of using those of the table");
  CLI11_PARSE(app, argc, argv);
  if (search) {
    for (const DaeCase& c : dae_cases())
      for (const int64_t threads : {1, 2}) {
        const auto tiles = search_dae_tiles(c.layer, threads);
        if (!tiles) {
          fmt::print(stderr, "{}\n", tiles.error().to_string());
          return 1;
        }
        fmt::print("{} {} {{{}, {}, {}, {}, {}}}\n", c.layer.name, threads, tiles->out, tiles->rows, tiles->columns,
                   tiles->in, tiles->threads_in_rows);
        std::fflush(stdout);
      }
    return 0;
  }
  const auto table = dae_table();
  if (!table) {
    fmt::print(stderr, "{}\n", table.error().to_string());
    return 1;
  }
  fmt::print("{}", *table);
  return 0;
}
