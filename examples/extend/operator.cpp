// An operator of one's own: Swish of the domain com.example, x * sigmoid(beta * x). What each element is suffices:
// models that have it load, it joins the product before it, and a schedule is found for both.

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "driver/open.h"
#include "frontend/onnx/import.h"
#include "graph/op_registry.h"
#include "graph/passes/pipeline.h"
#include "graph/plan/plan.h"
#include "matmul.h"
#include "measure/local_measurer.h"
#include "tune/tuner.h"

using namespace fettle;

Result<std::vector<TensorType>> swish_type(const Node& node) { return std::vector{*node.inputs[0]->type}; }

Result<std::vector<te::Tensor>> swish(const Node& node, std::span<const te::Tensor> inputs) {
  const te::Tensor& x = inputs[0];
  const Expr beta = float_imm(node.attrs.get_float("beta", 1), x.dtype());
  return std::vector{
      te::compute(x.shape(), [&](const auto& i) { return x(i) * math("sigmoid", {x(i) * beta}); }, "swish")};
}

constexpr OpDef kSwish{.name = "com.example.Swish",
                       .fusion = FusionKind::kElementwise,
                       .infer = swish_type,
                       .compute = swish,
                       .is_pointwise = true};

// --- a model that has it, as an exporter would write it: y = Swish(x @ x) {beta = 1.5}, f32[64, 64]

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7) bytes += static_cast<char>(value | 128);
  return bytes + static_cast<char>(value);
}
std::string number(int field, uint64_t value) { return varint(static_cast<uint64_t>(field) << 3) + varint(value); }
std::string text(int field, const std::string& bytes) {
  return varint(static_cast<uint64_t>(field) << 3 | 2) + varint(bytes.size()) + bytes;
}
std::string value_info(const std::string& name) {
  const std::string dim = text(1, number(1, 64));
  return text(1, name) + text(2, text(1, number(1, 1) + text(2, dim + dim)));
}
std::string model_bytes() {
  const float beta = 1.5f;
  std::string attribute = text(1, "beta") + number(20, 1) + varint(2 << 3 | 5);
  attribute.append(reinterpret_cast<const char*>(&beta), sizeof beta);
  const std::string product = text(1, "x") + text(1, "x") + text(2, "h") + text(4, "MatMul");
  const std::string own = text(1, "h") + text(2, "y") + text(4, "Swish") + text(5, attribute) + text(7, "com.example");
  const std::string graph =
      text(1, product) + text(1, own) + text(2, "layer") + text(11, value_info("x")) + text(12, value_info("y"));
  return number(1, 8) + text(7, graph) + text(8, number(2, 17)) + text(8, text(1, "com.example") + number(2, 1));
}

Result<std::string> example() {
  FETTLE_TRY_VOID(register_op(kSwish));
  if (register_op(kSwish)) return fail(ErrorCode::E709, "an operator was registered twice");

  // Import, inference, passes and the plan: one kernel for both nodes.
  const std::string bytes = model_bytes();
  FETTLE_TRY(Graph graph, import_onnx_bytes(std::as_bytes(std::span(bytes)), "."));
  FETTLE_TRY_VOID(optimize(graph));
  FETTLE_TRY(const Plan plan, make_plan(graph));
  if (plan.calls.size() != 1) return fail(ErrorCode::E709, "it did not join the product:\n" + to_text(plan));

  // Its schedules are searched for, as any other's.
  const Target target = detect_host(1);
  FETTLE_TRY(const auto runner, LocalMeasurer::start({.target = target, .worker_path = FETTLE_WORKER}));
  const auto learner = make_prediction_only();
  const auto database = make_memory_database();
  const TuneOptions options{.max_trials = 8};
  FETTLE_TRY(const TaskReport report,
             tune_task(plan.workloads[0].func, target, 1, *database, *runner, *learner, options));

  // The whole model, compiled into this process.
  const std::filesystem::path file = std::filesystem::temp_directory_path() / "fettle-extend-operator.onnx";
  std::ofstream(file, std::ios::binary) << bytes;
  auto opened = open_model(file.string(), {.threads = 1});
  std::filesystem::remove(file);
  FETTLE_TRY(Model model, std::move(opened));
  FETTLE_TRY(Tensor x, Tensor::make(FETTLE_F32, {64, 64}));
  for (size_t i = 0; i < 64 * 64; ++i) x.elems<float>()[i] = static_cast<float>(i * 7 % 13) / 16 - 0.375f;
  const std::vector<float> in(x.elems<float>().begin(), x.elems<float>().end());
  std::vector<NamedTensor> inputs;
  inputs.push_back({"x", std::move(x)});
  FETTLE_TRY(const auto outputs, model.run(inputs));
  for (size_t i = 0; i < 64; ++i)
    for (size_t j = 0; j < 64; ++j) {
      double h = 0;
      for (size_t k = 0; k < 64; ++k) h += static_cast<double>(in[i * 64 + k]) * in[k * 64 + j];
      const double want = h / (1 + std::exp(-1.5 * h));
      if (!(std::abs(outputs[0].tensor.elems<float>()[i * 64 + j] - want) < 1e-4))
        return fail(ErrorCode::E405, "swish is wrong");
    }
  return plan.calls[0].name + ": " + std::to_string(report.trials) + " trials";
}

int main() { return tell(example()); }
