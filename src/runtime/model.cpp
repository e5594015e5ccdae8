#include "runtime/model.h"

#include <fmt/format.h>

#include <algorithm>

#include "rt/model.h"
#include "runtime/dtype.h"
#include "runtime/library.h"

namespace fettle {
namespace {

std::span<const int64_t> shape_of(const FettleTensor& tensor) {
  return {tensor.shape, static_cast<size_t>(tensor.rank)};
}

/// "'x' f32[1, 3], 'mask' bool[3]"
std::string list(std::span<const FettleTensor> tensors) {
  std::string text;
  for (const FettleTensor& tensor : tensors)
    text += fmt::format("{}'{}' {}", text.empty() ? "" : ", ", tensor.name, tensor_type_to_string(tensor));
  return text.empty() ? "none" : text;
}

Result<> check_type(const char* what, const FettleTensor& expected, const Tensor& got) {
  if (got.dtype() == expected.dtype && std::ranges::equal(got.shape(), shape_of(expected))) return {};
  return fail(ErrorCode::E705, fmt::format("{} '{}' is {}, expected {}", what, expected.name, got.type_to_string(),
                                           tensor_type_to_string(expected)));
}

/// Finds, for each tensor of the model, the one given under its name. E704, E705.
template <class Named, class Take>
Result<> match(const char* what, std::span<const FettleTensor> expected, std::span<Named> given, Take take) {
  for (size_t i = 0; i < given.size(); ++i) {
    const std::string& name = given[i].name;
    if (std::ranges::none_of(expected, [&](const FettleTensor& tensor) { return name == tensor.name; }))
      return fail(ErrorCode::E704, fmt::format("the model has no {} '{}'; it has {}", what, name, list(expected)));
    for (size_t j = 0; j < i; ++j)
      if (given[j].name == name) return fail(ErrorCode::E704, fmt::format("{} '{}' is given twice", what, name));
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto found = std::ranges::find_if(given, [&](const auto& named) { return named.name == expected[i].name; });
    if (found == given.end()) {
      return fail(ErrorCode::E704,
                  fmt::format("{} '{}' {} is missing", what, expected[i].name, tensor_type_to_string(expected[i])));
    }
    FETTLE_TRY_VOID(check_type(what, expected[i], found->tensor));
    take(i, *found);
  }
  return {};
}

}  // namespace

std::string tensor_type_to_string(const FettleTensor& tensor) {
  return fmt::format("{}{}", dtype_name(tensor.dtype), shape_to_string(shape_of(tensor)));
}

Result<Model> Model::load(const std::filesystem::path& path, const FettleOptions& options) {
  FETTLE_TRY(std::shared_ptr<const FettleModelInfo> info, load_library(path));
  return make(std::move(info), options);
}

Result<Model> Model::make(std::shared_ptr<const FettleModelInfo> info, const FettleOptions& options) {
  Model model;
  model.info_ = std::move(info);
  FettleModel* instance =
      model.info_->create ? model.info_->create(&options) : fettle_rt_model_create(model.info_.get(), &options);
  model.instance_ = {instance, Destroy{model.info_->destroy}};
  if (model.instance_ == nullptr) return fail(ErrorCode::E710, model.info_->error(nullptr));
  model.input_data_.resize(model.inputs().size());
  model.output_data_.resize(model.outputs().size());
  return model;
}

std::span<const FettleTensor> Model::inputs() const { return {info_->inputs, static_cast<size_t>(info_->n_inputs)}; }
std::span<const FettleTensor> Model::outputs() const { return {info_->outputs, static_cast<size_t>(info_->n_outputs)}; }

Result<std::vector<NamedTensor>> Model::make_outputs() const {
  std::vector<NamedTensor> made;
  for (const FettleTensor& output : outputs()) {
    const std::span<const int64_t> shape = shape_of(output);
    FETTLE_TRY(Tensor tensor, Tensor::make(static_cast<FettleDtype>(output.dtype), {shape.begin(), shape.end()}));
    made.push_back({output.name, std::move(tensor)});
  }
  return made;
}

Result<std::vector<NamedTensor>> Model::run(std::span<const NamedTensor> inputs) {
  FETTLE_TRY(std::vector<NamedTensor> outputs, make_outputs());
  FETTLE_TRY_VOID(run_into(inputs, outputs));
  return outputs;
}

Result<> Model::run_into(std::span<const NamedTensor> inputs, std::span<NamedTensor> outputs) {
  FETTLE_TRY_VOID(match("input", this->inputs(), inputs,
                        [&](size_t i, const NamedTensor& named) { input_data_[i] = named.tensor.data(); }));
  FETTLE_TRY_VOID(match("output", this->outputs(), outputs,
                        [&](size_t i, NamedTensor& named) { output_data_[i] = named.tensor.data(); }));
  if (info_->run(instance_.get(), input_data_.data(), output_data_.data()) != FETTLE_OK)
    return fail(ErrorCode::E710, info_->error(instance_.get()));
  return {};
}

void Model::set_kernel_hook(FettleKernelHook hook, void* user) { info_->profile(instance_.get(), hook, user); }

}  // namespace fettle
