// .npy files.

#include <array>

#include "hostile/kinds.h"
#include "runtime/npy.h"

namespace fettle::hostile {
namespace {

std::string npy(const std::string& header, const std::string& data, char major = 1) {
  std::string bytes = std::string("\x93NUMPY", 6) + major + '\0';
  bytes += static_cast<char>(header.size() & 255);
  bytes += static_cast<char>(header.size() >> 8);
  if (major > 1) bytes += std::string(2, '\0');
  return bytes + header + data;
}

std::string header(const std::string& descr, const std::string& shape, const std::string& order = "False") {
  return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

Kind array_kind(std::string name, std::vector<std::string> files) {
  const int variants = static_cast<int>(files.size());
  return {std::move(name), variants,
          [files = std::move(files)](int variant, const std::filesystem::path& folder) -> Result<> {
            write(folder / "a.npy", files[static_cast<size_t>(variant)]);
            FETTLE_TRY(const Tensor tensor, read_npy(folder / "a.npy"));
            return {};
          }};
}

}  // namespace

std::vector<Kind> array_kinds() {
  const std::string good = header("'<f4'", "(2, 2)"), data(16, '\0');
  return {
      array_kind("no array", {"", "x", std::string(6, '\x93'), std::string(1000, 'x')}),
      array_kind("an array of a version that is none", {npy(good, data, 0), npy(good, data, 4), npy(good, data, 127)}),
      array_kind("an array cut off", {npy(good, data).substr(0, 9), npy(good, data).substr(0, 40),
                                      npy(good, data.substr(1)), npy(good, "")}),
      array_kind("a header that is none",
                 {npy("", data), npy("{", data), npy(std::string(60000, '{'), data), npy("{'descr': '<f4'}", data)}),
      array_kind("an element type that is none",
                 {npy(header("'<f3'", "(2, 2)"), data), npy(header("'|O'", "(2,)"), data),
                  npy(header("[('a', '<f4')]", "(2, 2)"), data), npy(header("'>f4'", "(2, 2)"), data)}),
      array_kind("an order of columns",
                 {npy(header("'<f4'", "(2, 2)", "True"), data), npy(header("'<f4'", "(2, 2)", "maybe"), data),
                  npy(header("'<f4'", "(2, 2)", ""), data)}),
      array_kind("a shape that is none", {npy(header("'<f4'", "(-2, -2)"), data), npy(header("'<f4'", "2"), data),
                                          npy(header("'<f4'", "(2 2)"), data), npy(header("'<f4'", "(2.0, 2)"), data)}),
      array_kind("a shape that is huge", {npy(header("'<f4'", "(4611686018427387904, 4)"), ""),
                                          npy(header("'<f4'", "(99999999999999999999,)"), data),
                                          npy(header("'<f4'", "(1099511627776,)"), data)}),
  };
}

}  // namespace fettle::hostile
