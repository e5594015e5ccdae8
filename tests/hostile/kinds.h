#pragma once
// Kinds of hostile files. Each kind has variants, and each variant must be refused.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace fettle::hostile {

struct Kind {
  std::string name;
  int variants = 3;
  /// Makes the file of one variant in `folder`, which is empty, and reads it as Fettle does. An error is wanted.
  std::function<Result<>(int variant, const std::filesystem::path& folder)> read;
};

std::vector<Kind> model_kinds();     // ONNX files
std::vector<Kind> node_kinds();      // of which one node is wrong
std::vector<Kind> size_kinds();      // which ask for too much
std::vector<Kind> external_kinds();  // external data
std::vector<Kind> text_kinds();      // loop programs and traces
std::vector<Kind> record_kinds();    // databases and files of records
std::vector<Kind> array_kinds();     // .npy files
std::vector<Kind> command_kinds();   // options of the program

void write(const std::filesystem::path& path, const std::string& bytes);

}  // namespace fettle::hostile
