#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "base/output_file.h"
#include "cli/interruption.h"
#include "cli/tracker_options.h"
#include "measure/protocol.h"
#include "remote/tracker_client.h"
#include "remote/tracker_server.h"

namespace fettle::cli {
namespace {

struct Options {
  std::string listen = "127.0.0.1:9190", query, address_file;
  double silence_s = TrackerTimes().silence_s;
  CredentialFiles credentials;
  bool json = false;
};

Result<Report> listen(const Options& options) {
  TrackerOptions tracker;
  FETTLE_TRY(tracker.address, parse_address(options.listen));
  FETTLE_TRY(tracker.credentials, server_credentials(tracker.address, options.credentials));
  tracker.times.silence_s = options.silence_s;
  tracker.times.beat_s = std::min(tracker.times.beat_s, options.silence_s / 5);
  InterruptGuard guard;
  FETTLE_TRY(const std::unique_ptr<TrackerServer> server, TrackerServer::start(tracker));
  const std::string address = server->address().to_string();
  progress("tracker at " + address);
  if (!options.address_file.empty()) FETTLE_TRY_VOID(write_file(options.address_file, address + "\n"));
  while (!guard.interrupted()) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return Report{.json = {{"address", address}}};
}

std::string short_target(const wire::Machine& machine) {
  const auto target = target_from_json(machine.target());
  return target ? fettle::describe(*target) : "?";
}

Result<Report> query(const Options& options) {
  FETTLE_TRY(const Address address, parse_address(options.query));
  FETTLE_TRY(const Credentials credentials, client_credentials(address, options.credentials));
  TrackerClient client(address, credentials);
  FETTLE_TRY(const wire::QueryReply reply, client.query());
  Report report;
  report.json = {{"address", client.address()}, {"up_s", reply.up_s()}, {"keys", nlohmann::json::array()}};
  if (reply.keys().empty()) report.text = "no devices\n";
  for (const wire::KeyState& key : reply.keys()) {
    nlohmann::json devices = nlohmann::json::array();
    report.text += fmt::format("{}  {}; threads of a candidate: {}\n", key.key(), short_target(key.machine()),
                               key.machine().threads());
    report.text += fmt::format(
        "  {} queued, {} measuring, {} tuners; {} measured, {} queued again, {} devices lost, {} in quarantine\n",
        key.queued(), key.measuring(), key.sessions(), key.done(), key.requeued(), key.lost_devices(),
        key.quarantined());
    for (const wire::DeviceState& device : key.devices()) {
      report.text += fmt::format("  {:<32} {:<10} {} measured, heard of {:.1f} s ago\n", device.name(), device.state(),
                                 device.done(), device.seen_s());
      devices.push_back({{"name", device.name()},
                         {"state", device.state()},
                         {"measured", device.done()},
                         {"seen_s", device.seen_s()}});
    }
    report.json["keys"].push_back({{"key", key.key()},
                                   {"target", short_target(key.machine())},
                                   {"threads", key.machine().threads()},
                                   {"versions", key.machine().versions()},
                                   {"devices", devices},
                                   {"queued", key.queued()},
                                   {"measuring", key.measuring()},
                                   {"tuners", key.sessions()},
                                   {"measured", key.done()},
                                   {"queued_again", key.requeued()},
                                   {"devices_lost", key.lost_devices()},
                                   {"quarantined", key.quarantined()}});
  }
  return report;
}

}  // namespace

void add_credentials(App* app, CredentialFiles* files) {
  app->add_option("--token-file", files->token, "the secret that tracker, devices and tuners share")->type_name("FILE");
  app->add_option("--tls-cert", files->tls_cert, "this side's certificates, PEM")->type_name("FILE");
  app->add_option("--tls-key", files->tls_key, "the key of its certificate, PEM")->type_name("FILE");
  app->add_option("--tls-ca", files->tls_ca, "whose certificates are trusted, PEM")->type_name("FILE");
}

Command add_tracker_command(App& app) {
  auto options = std::make_shared<Options>();
  App* made =
      add_subcommand(app, "tracker", "Bring tuners and the devices that measure for them together, until interrupted",
                     "fettle tracker --listen 127.0.0.1:9190\n  fettle tracker --query 127.0.0.1:9190", &options->json);
  auto* listening =
      made->add_option("--listen", options->listen,
                       "where it is called; port 0: one that is free. Beyond this machine a token and TLS are needed")
          ->type_name("HOST:PORT")
          ->capture_default_str();
  made->add_option("--address-file", options->address_file, "write the address there once it listens")
      ->type_name("FILE");
  made->add_option("--device-timeout", options->silence_s, "seconds of silence after which a device is lost")
      ->between(0.5, 3600.0)
      ->capture_default_str();
  made->add_option("--query", options->query, "say what another tracker knows, and end")
      ->type_name("HOST:PORT")
      ->excludes(listening);
  add_credentials(made, &options->credentials);
  return {made, [options] { return options->query.empty() ? listen(*options) : query(*options); }, &options->json};
}

}  // namespace fettle::cli
