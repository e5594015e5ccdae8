// Databases of records and files of them.

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "database/json_lines.h"
#include "database/sqlite_database.h"

namespace {

using namespace fettle;

// Its own, in memory where the machine has that.
const std::filesystem::path& folder() {
  static const std::filesystem::path made = [] {
    std::string path =
        (std::filesystem::exists("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path().string()) +
        "/fettle_fuzz_XXXXXX";
    return std::filesystem::path(::mkdtemp(path.data()));
  }();
  static const int at_exit = std::atexit([] { std::filesystem::remove_all(folder()); });
  (void)at_exit;
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const bool is_database = size > 15 && data[0] == 'S' && data[1] == 'Q';
  const std::filesystem::path path = folder() / (is_database ? "records.db" : "records.jsonl");
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  if (!is_database) {
    const auto database = make_memory_database();
    (void)import_records(*database, path);
    return 0;
  }
  const auto database = open_sqlite_database(path, {.read_only = true});
  if (!database) return 0;
  (void)(*database)->for_each([](const Record&) { return Result<>(); });
  (void)(*database)->runs();
  (void)summarize(**database);
  return 0;
}
