#include "tests/digests/steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace fettle::digests {
namespace {

std::string output_text(const StepOutput& output) {
  if (const Var* loop = std::get_if<Var>(&output)) return std::string((*loop)->name);
  if (const auto* block = std::get_if<std::string>(&output)) return *block;
  return std::to_string(std::get<int64_t>(output));
}

struct Writer {
  const Trace& trace;

  std::string of(const StepRef& ref) const {
    return output_text(trace.steps[static_cast<size_t>(ref.step)]->outputs[static_cast<size_t>(ref.output)]);
  }
  std::string of(const ArgValue& arg) const {
    return std::visit([&](const auto& x) { return (*this)(x); }, arg.value);
  }

  std::string operator()(std::monostate) const { return "none"; }
  std::string operator()(bool x) const { return x ? "true" : "false"; }
  std::string operator()(int64_t x) const { return std::to_string(x); }
  std::string operator()(double x) const { return fmt::format("{}", x); }
  std::string operator()(const std::string& x) const { return '"' + x + '"'; }
  std::string operator()(const StepRef& x) const { return of(x); }
  std::string operator()(const ArgValue::Product& x) const {
    int64_t product = x.literal;
    for (const StepRef& factor : x.factors) {
      const StepOutput& output =
          trace.steps[static_cast<size_t>(factor.step)]->outputs[static_cast<size_t>(factor.output)];
      product *= std::get<int64_t>(output);
    }
    return std::to_string(product);
  }
  std::string operator()(const std::vector<ArgValue>& x) const {
    std::vector<std::string> items;
    for (const ArgValue& item : x) items.push_back(of(item));
    return fmt::format("[{}]", fmt::join(items, ", "));
  }
};

}  // namespace

std::string steps_text(const Trace& trace) {
  const Writer writer{trace};
  std::string text;
  for (const auto& step : trace.steps) {
    if (step->def->samples || step->def->queries) continue;
    std::vector<std::string> args, outputs;
    for (const NamedArg& arg : step->def->to_args(step->args.get()))
      args.push_back(fmt::format("{}={}", arg.name, writer.of(arg.value)));
    for (const StepOutput& output : step->outputs) outputs.push_back(output_text(output));
    text += fmt::format("{}({})", step->def->name, fmt::join(args, ", "));
    if (!outputs.empty()) text += fmt::format(" -> {}", fmt::join(outputs, ", "));
    text += '\n';
  }
  return text;
}

}  // namespace fettle::digests
