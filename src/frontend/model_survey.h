#pragma once
// What a model file says of itself, before anything is made of it.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace fettle {

struct ModelSurvey {
  std::string format;                                                // "StableHLO 1.17.0, bytecode"; of ONNX, below
  int64_t ir_version = 0;                                            // of ONNX files, as what follows
  std::string producer;                                              // "pytorch 2.1"
  std::vector<std::pair<std::string, int64_t>> opsets;               // domain, version; ONNX's own is ""
  std::map<std::string, int64_t> operators;                          // how many nodes of each, those in bodies too
  std::map<std::string, std::vector<std::string>> missing;           // operators that are not supported: their nodes
  std::vector<std::pair<std::string, std::string>> inputs, outputs;  // name, type as the file has it: "float[N, 3]"
  int64_t parameters = 0, parameter_bytes = 0;     // elements of initializers and Constants, those in bodies too
  std::map<std::string, int64_t> parameter_types;  // of which type so many elements are
};

}  // namespace fettle
