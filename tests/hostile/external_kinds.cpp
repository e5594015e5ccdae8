// Models whose external data are not there, or not theirs.

#include <fcntl.h>
#include <sys/stat.h>

#include <array>

#include "hostile/models.h"

namespace fettle::hostile {
namespace {

namespace fs = std::filesystem;

/// The model lies in folder/model; `make` sets location, offset and length and makes files.
struct External {
  std::string location = "w.bin", offset = "0", length = "48";
};
Kind external_kind(std::string name, std::function<void(External& e, const fs::path& folder, int variant)> make,
                   int variants = 3) {
  return {std::move(name), variants, [make = std::move(make)](int variant, const fs::path& folder) {
            fs::create_directories(folder / "model/inner");
            write(folder / "model/w.bin", std::string(48, '\1'));
            write(folder / "outside.bin", std::string(48, '\1'));
            External e;
            make(e, folder, variant);
            onnx::ModelProto model = small_model();
            auto* w = model.mutable_graph()->mutable_initializer(0);
            w->clear_float_data();
            w->set_data_location(onnx::TensorProto::EXTERNAL);
            const auto add = [&](const char* key, const std::string& value) {
              auto* entry = w->add_external_data();
              entry->set_key(key);
              entry->set_value(value);
            };
            add("location", e.location);
            if (!e.offset.empty()) add("offset", e.offset);
            if (!e.length.empty()) add("length", e.length);
            write(folder / "model/model.onnx", model.SerializeAsString());
            return read_model(folder / "model/model.onnx");
          }};
}

}  // namespace

std::vector<Kind> external_kinds() {
  return {
      external_kind("an absolute path",
                    [](External& e, const fs::path& folder, int v) {
                      e.location = std::array<std::string, 3>{(folder / "model/w.bin").string(), "/etc/passwd",
                                                              "//w.bin"}[static_cast<size_t>(v)];
                    }),
      external_kind(
          "a path that climbs",
          [](External& e, const fs::path&, int v) {
            e.location = std::array<std::string, 4>{"../outside.bin", "inner/../../outside.bin", "inner/../w.bin",
                                                    ".."}[static_cast<size_t>(v)];
          },
          4),
      external_kind("a link that leads out",
                    [](External& e, const fs::path& folder, int v) {
                      const fs::path inner = folder / "model/inner";
                      if (v == 0)
                        fs::create_symlink("../outside.bin", folder / "model/link.bin"), e.location = "link.bin";
                      if (v == 1)
                        fs::create_directory_symlink(folder, inner / "up"), e.location = "inner/up/outside.bin";
                      if (v == 2)
                        fs::create_symlink(folder / "outside.bin", inner / "abs.bin"), e.location = "inner/abs.bin";
                    }),
      external_kind("a link to itself",
                    [](External& e, const fs::path& folder, int v) {
                      fs::create_symlink(v == 0 ? "l.bin" : "m.bin", folder / "model/l.bin");
                      if (v > 0) fs::create_symlink(v == 1 ? "l.bin" : "nowhere", folder / "model/m.bin");
                      e.location = "l.bin";
                    }),
      external_kind("a folder",
                    [](External& e, const fs::path&, int v) {
                      e.location = std::array<std::string, 3>{"inner", ".", "inner/"}[static_cast<size_t>(v)];
                    }),
      external_kind("a pipe or a socket",
                    [](External& e, const fs::path& folder, int v) {
                      ::mkfifo((folder / "model/pipe.bin").c_str(), 0600);
                      if (v == 1) ::mkfifo((folder / "model/inner/pipe").c_str(), 0600);
                      e.location = v == 1 ? "inner/pipe" : "pipe.bin";
                      if (v == 2) e.length.clear();
                    }),
      external_kind("a device",
                    [](External& e, const fs::path& folder, int v) {
                      fs::create_symlink(std::array<const char*, 3>{"/dev/zero", "/dev/stdin",
                                                                    "/proc/self/mem"}[static_cast<size_t>(v)],
                                         folder / "model/device");
                      e.location = "device";
                    }),
      external_kind("a name with a zero in it",
                    [](External& e, const fs::path&, int v) {
                      e.location = std::array<std::string, 3>{std::string("w.bin\0", 6), std::string("\0w.bin", 6),
                                                              std::string("w.bin\0/../x", 11)}[static_cast<size_t>(v)];
                    }),
      external_kind(
          "a name that is none",
          [](External& e, const fs::path&, int v) {
            e.location =
                std::array<std::string, 4>{"", std::string(5000, 'n'), "none.bin", "w.bin/x"}[static_cast<size_t>(v)];
          },
          4),
      external_kind(
          "an offset that is none",
          [](External& e, const fs::path&, int v) {
            e.offset = std::array<std::string, 5>{"-1", "1e3", "9223372036854775807", "18446744073709551616",
                                                  "0x10"}[static_cast<size_t>(v)];
          },
          5),
      external_kind(
          "a length that is none",
          [](External& e, const fs::path&, int v) {
            e.length = std::array<std::string, 5>{"-48", "47", "49", "", "9223372036854775807"}[static_cast<size_t>(v)];
            if (v == 3) e.offset = "1";
          },
          5),
      external_kind("a file that is too short",
                    [](External&, const fs::path& folder, int v) {
                      write(folder / "model/w.bin", std::string(static_cast<size_t>(v * 20), '\1'));
                    }),
  };
}

}  // namespace fettle::hostile
