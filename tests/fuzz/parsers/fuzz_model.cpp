// ONNX files: import and all passes. The mutator changes messages, not bytes.

#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/stubs/logging.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <span>

#include "frontend/onnx/import.h"
#include "graph/passes/pipeline.h"
#include "mutate_message.h"

namespace {

/// An empty model. ONNX's own messages are compiled without their descriptions, which protoc has put into a file.
std::unique_ptr<google::protobuf::Message> make_model() {
  static google::protobuf::DescriptorPool pool;
  static google::protobuf::DynamicMessageFactory factory;
  static const google::protobuf::Message* const empty = []() -> const google::protobuf::Message* {
    google::protobuf::FileDescriptorSet described;
    std::ifstream in(FETTLE_ONNX_DESCRIPTION, std::ios::binary);
    if (!described.ParseFromIstream(&in)) return nullptr;
    for (const auto& file : described.file()) pool.BuildFile(file);
    const google::protobuf::Descriptor* model = pool.FindMessageTypeByName("onnx.ModelProto");
    return model ? factory.GetPrototype(model) : nullptr;
  }();
  if (!empty) std::abort();
  return std::unique_ptr<google::protobuf::Message>(empty->New());
}

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  google::protobuf::LogSilencer quiet;
  const std::unique_ptr<google::protobuf::Message> model = make_model();
  // Now and then bytes, for the parser itself.
  if (seed % 16 == 0 || !model->ParseFromArray(data, static_cast<int>(size)))
    return LLVMFuzzerMutate(data, size, max_size);
  fettle::fuzz::mutate(*model, seed);
  if (model->ByteSizeLong() > max_size) return size;
  model->SerializeToArray(data, static_cast<int>(max_size));
  return model->ByteSizeLong();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fettle;
  const Limits limits{.elements = 1 << 20,
                      .constant_bytes = 1 << 22,
                      .nodes = 200,
                      .nesting = 4,
                      .folded_bytes = 1 << 16,
                      .folded_total_bytes = 1 << 18,
                      .folded_steps = 1 << 18};
  auto graph = import_onnx_bytes(std::as_bytes(std::span(data, size)), "/nonexistent", "model", {}, limits);
  if (!graph) return 0;
  const PassContext context{.limits = limits, .run = interpreter_executor(limits.folded_steps)};
  if (optimize(*graph, context)) (void)require_sizes(*graph);
  return 0;
}
