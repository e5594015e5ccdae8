
#include <memory>

#include "cli/interruption.h"
#include "cli/tracker_options.h"
#include "cost/predict/micro_kernel_table.h"
#include "driver/tune.h"
#include "measure/local_measurer.h"
#include "remote/device.h"

namespace fettle::cli {
namespace {

struct Options {
  std::string tracker, key, name;
  int threads = 0;
  bool micro_kernels = true;
  CredentialFiles credentials;
  bool json = false;
};

Result<Report> serve(const Options& options) {
  DeviceOptions device;
  FETTLE_TRY(device.tracker, parse_address(options.tracker));
  FETTLE_TRY(device.credentials, client_credentials(device.tracker, options.credentials));
  device.key = options.key;
  device.name = options.name;
  device.target = detect_host(options.threads);
  device.threads = device.target.threads;
  InterruptGuard guard;
  device.stop = &guard.interrupted();
  device.say = progress;
  // Tuners elsewhere predict with it.
  if (options.micro_kernels) {
    const auto micro_kernels =
        MicroKernelTable::load_or_measure(device.target, micro_kernel_table_file(device.target).string());
    if (micro_kernels)
      device.micro_kernels = micro_kernels->to_numbers();
    else
      progress("no micro-kernel table: " + micro_kernels.error().to_string());
  }
  FETTLE_TRY(const std::unique_ptr<LocalMeasurer> measurer,
             LocalMeasurer::start({.target = device.target, .threads = device.threads}));
  FETTLE_TRY_VOID(serve_device(*measurer, device));
  return Report{.json = {{"key", device.key}, {"threads", device.threads}}};
}

}  // namespace

Command add_device_command(App& app) {
  auto options = std::make_shared<Options>();
  App* made = add_subcommand(app, "device", "Measure for tuners that call a tracker, until interrupted",
                             "fettle device --tracker 127.0.0.1:9190 --key zen4-2c", &options->json);
  made->add_option("--tracker", options->tracker, "whom to ask for work")->required()->type_name("HOST:PORT");
  made->add_option("--key", options->key, "what this machine is offered as; devices of one key are alike")
      ->required()
      ->type_name("KEY");
  made->add_option("--name", options->name, "of this device, for people; default: host and process")->type_name("NAME");
  made->add_flag("!--no-micro-kernels", options->micro_kernels,
                 "do not measure the micro-kernel table, which tuners elsewhere predict with");
  add_threads(made, &options->threads);
  add_credentials(made, &options->credentials);
  return {made, [options] { return serve(*options); }, &options->json};
}

}  // namespace fettle::cli
