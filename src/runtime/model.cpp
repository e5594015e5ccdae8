#include "runtime/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <mutex>

#include "rt/targets.h"
#include "rt/tensor.h"
#include "runtime/host_calls.h"
#include "runtime/library.h"

namespace fettle {
namespace {

std::span<const int64_t> shape_of(const FettleTensor& tensor) {
  return {tensor.shape, static_cast<size_t>(tensor.rank)};
}

std::vector<FettleTensor> copy_of(const FettleTensor* tensors, int32_t count) {
  std::vector<FettleTensor> copied;
  for (int32_t i = 0; i < count; ++i) {
    copied.push_back(*rt::nth(tensors, i));
    copied.back().struct_bytes = sizeof(FettleTensor);
  }
  return copied;
}

/// "'x' f32[1, 3], 'mask' bool[3]"
std::string list(std::span<const FettleTensor> tensors) {
  std::string text;
  for (const FettleTensor& tensor : tensors)
    text += fmt::format("{}'{}' {}", text.empty() ? "" : ", ", tensor.name, tensor_type_to_string(tensor));
  return text.empty() ? "none" : text;
}

/// Which of the model's tensors are those of states.
std::vector<bool> of_states(const FettleModelInfo& info, size_t count, int32_t FettleState::* place) {
  std::vector<bool> found(count, false);
  for (int32_t s = 0; s < info.n_states; ++s) found[static_cast<size_t>(rt::nth(info.states, s)->*place)] = true;
  return found;
}

/// Finds, for each tensor of the model, the one given under its name; nothing for one that may be left out. E704.
template <class Given, class Name, class Take>
Result<> match(const char* what, std::span<const FettleTensor> expected, const std::vector<bool>& optional,
               std::span<Given> given, Name name_of, Take take) {
  for (size_t i = 0; i < given.size(); ++i) {
    const std::string_view name = name_of(given[i]);
    if (std::ranges::none_of(expected, [&](const FettleTensor& tensor) { return name == tensor.name; }))
      return fail(ErrorCode::E704, fmt::format("the model has no {} '{}'; it has {}", what, name, list(expected)));
    for (size_t j = 0; j < i; ++j)
      if (name_of(given[j]) == name) return fail(ErrorCode::E704, fmt::format("{} '{}' is given twice", what, name));
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto found = std::ranges::find_if(given, [&](const auto& one) { return name_of(one) == expected[i].name; });
    if (found != given.end()) {
      take(i, *found);
    } else if (!optional[i]) {
      return fail(ErrorCode::E704,
                  fmt::format("{} '{}' {} is missing", what, expected[i].name, tensor_type_to_string(expected[i])));
    }
  }
  return {};
}

/// Copies what a run made in the context's memory; the tensor is made anew where it has no room.
Result<> take_late_output(const FettleTensor& made, std::vector<int64_t> shape, Tensor& tensor) {
  const int64_t bytes = rt::dense_bytes(made.dtype, made.shape, made.rank);
  if (tensor.data() == nullptr || tensor.capacity_bytes() < bytes) {
    FETTLE_TRY(tensor, Tensor::make(static_cast<FettleDtype>(made.dtype), std::move(shape)));
  } else {
    tensor.set_shape(std::move(shape));
  }
  if (bytes > 0) std::memcpy(tensor.data(), made.data, static_cast<size_t>(bytes));
  return {};
}

std::string_view name_of_view(const FettleTensor& tensor) { return tensor.name; }
std::string_view name_of_named(const NamedTensor& tensor) { return tensor.name; }

}  // namespace

std::string tensor_type_to_string(const FettleTensor& tensor) {
  rt::Text text;
  text << tensor;
  return text.chars;
}

FettleTensor view_of(const char* name, const Tensor& tensor) {
  FettleTensor view{};
  view.struct_bytes = sizeof view;
  view.dtype = tensor.dtype();
  view.rank = static_cast<int32_t>(tensor.shape().size());
  view.device = FETTLE_CPU;
  view.name = name;
  view.data = const_cast<void*>(tensor.data());
  view.shape = tensor.shape().data();
  view.capacity_bytes = tensor.capacity_bytes();
  return view;
}

struct Model::Shared {
  std::shared_ptr<const FettleModelInfo> info;
  FettleOptions options{};  // without what the caller lent for the opening
  FettleHostCalls host_calls{};
  std::vector<FettleTensor> inputs, outputs;
  std::vector<bool> input_is_state, output_is_state;
  std::vector<bool> output_is_late;  // a run tells its size
  FettleModel* handle = nullptr;
  std::mutex mutex;
  std::vector<FettleContext*> idle;  // of `in_context`

  Shared() = default;
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() {
    for (FettleContext* context : idle) info->functions->destroy_context(context);
    if (handle) info->functions->close(handle);
  }
};

Result<Model> Model::load(const std::filesystem::path& path, const FettleOptions& options, const std::string& target) {
  FETTLE_TRY(std::shared_ptr<const FettleModelInfo> info, load_library(path, target));
  return make(std::move(info), options);
}

Result<Model> Model::on_team(const FettleHostTeam& team) const {
  FettleOptions options = shared_->options;
  options.host_team = &team;
  options.host_calls = &shared_->host_calls;
  return make(shared_->info, options);
}

Result<Model> Model::make(std::shared_ptr<const FettleModelInfo> info, const FettleOptions& options) {
  Model model;
  model.shared_ = std::make_shared<Shared>();
  Shared& shared = *model.shared_;
  FettleOptions sized = options;
  sized.struct_bytes = sizeof sized;
  shared.info = std::move(info);
  shared.options = sized;
  shared.options.host_team = nullptr;
  shared.options.host_calls = nullptr;
  shared.host_calls = options.host_calls ? *options.host_calls : process_host_calls();
  sized.host_calls = &shared.host_calls;
  shared.handle = shared.info->functions->open(shared.info.get(), FETTLE_ABI_VERSION, &sized);
  if (shared.handle == nullptr) return fail(ErrorCode::E710, shared.info->functions->error(nullptr));
  shared.inputs = copy_of(shared.info->inputs, shared.info->n_inputs);
  shared.outputs = copy_of(shared.info->outputs, shared.info->n_outputs);
  shared.input_is_state = of_states(*shared.info, shared.inputs.size(), &FettleState::input);
  shared.output_is_state = of_states(*shared.info, shared.outputs.size(), &FettleState::output);
  shared.output_is_late.resize(shared.outputs.size(), false);
  for (size_t i = 0; shared.info->n_stages > 0 && i < shared.outputs.size(); ++i)
    shared.output_is_late[i] = shared.info->output_stages[i] > 0;
  return model;
}

const FettleModelInfo& Model::info() const { return *shared_->info; }
std::string Model::target_name() const { return fettle_target_name(shared_->info.get()); }
std::span<const FettleTensor> Model::inputs() const { return shared_->inputs; }
std::span<const FettleTensor> Model::outputs() const { return shared_->outputs; }

Result<ModelContext> Model::make_context() const {
  const FettleFunctions& functions = *info().functions;
  ModelContext::Handle handle(functions.create_context(shared_->handle), {functions.destroy_context});
  if (handle == nullptr) return fail(ErrorCode::E710, functions.error(nullptr));
  return ModelContext(*this, std::move(handle));
}

Result<> Model::in_context(const std::function<Result<>(ModelContext&)>& work) const {
  const auto take = [&]() -> Result<ModelContext> {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->idle.empty()) return make_context();
    ModelContext::Handle handle(shared_->idle.back(), {info().functions->destroy_context});
    shared_->idle.pop_back();
    return ModelContext(*this, std::move(handle));
  };
  FETTLE_TRY(ModelContext context, take());
  FETTLE_TRY_VOID(context.reset_states());
  Result<> done = work(context);
  const std::lock_guard lock(shared_->mutex);
  shared_->idle.push_back(context.handle_.get());
  (void)context.handle_.release();
  return done;
}

Result<std::vector<NamedTensor>> Model::run(std::span<const NamedTensor> inputs) const {
  std::vector<NamedTensor> outputs;
  FETTLE_TRY_VOID(in_context([&](ModelContext& context) -> Result<> {
    FETTLE_TRY(outputs, context.run(inputs));
    return {};
  }));
  return outputs;
}

ModelContext::ModelContext(Model model, Handle handle)
    : model_(std::move(model)),
      handle_(std::move(handle)),
      inputs_(model_.inputs().begin(), model_.inputs().end()),
      outputs_(model_.outputs().begin(), model_.outputs().end()) {}

Result<> ModelContext::checked(int32_t status) const {
  switch (status) {
    case FETTLE_OK:
      return {};
    case FETTLE_BUSY:
      return fail(ErrorCode::E710, "the context is being used by another call; make one for each thread");
    case FETTLE_INVALID_ARGUMENT:
    case FETTLE_WRONG_SHAPE:
      return fail(ErrorCode::E705, functions().error(handle_.get()));
    default:
      return fail(ErrorCode::E710, functions().error(handle_.get()));
  }
}

Result<> ModelContext::take_inputs(std::span<const FettleTensor> given) {
  std::ranges::copy(model_.inputs(), inputs_.begin());
  return match("input", model_.inputs(), model_.shared_->input_is_state, given, name_of_view,
               [&](size_t i, const FettleTensor& tensor) { inputs_[i] = tensor; });
}

Result<> ModelContext::take_inputs(std::span<const NamedTensor> given) {
  given_.clear();
  for (const NamedTensor& tensor : given) given_.push_back(view_of(tensor.name.c_str(), tensor.tensor));
  return take_inputs(given_);
}

Result<> ModelContext::take_outputs(std::span<NamedTensor> given) {
  std::ranges::copy(model_.outputs(), outputs_.begin());
  FETTLE_TRY_VOID(match("output", model_.outputs(), model_.shared_->output_is_state, given, name_of_named,
                        [&](size_t i, const NamedTensor& named) {
                          // What a run tells the size of is made in the context's memory.
                          if (!model_.shared_->output_is_late[i])
                            outputs_[i] = view_of(named.name.c_str(), named.tensor);
                        }));
  for (const NamedTensor& named : given)
    if (named.tensor.data() == nullptr && !is_late_output(named.name))
      return fail(ErrorCode::E705, fmt::format("output '{}' has no memory; make_outputs makes it", named.name));
  return {};
}

Result<std::vector<NamedTensor>> ModelContext::make_outputs(std::span<const NamedTensor> inputs) {
  FETTLE_TRY_VOID(take_inputs(inputs));
  std::ranges::copy(model_.outputs(), outputs_.begin());
  FETTLE_TRY_VOID(checked(functions().output_shapes(handle_.get(), inputs_.data(), outputs_.data())));
  std::vector<NamedTensor> made;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (model_.shared_->output_is_state[i]) continue;
    std::vector<int64_t> shape(shape_of(outputs_[i]).begin(), shape_of(outputs_[i]).end());
    std::ranges::replace(shape, -1, 0);
    FETTLE_TRY(Tensor tensor, Tensor::make(static_cast<FettleDtype>(outputs_[i].dtype), std::move(shape)));
    made.push_back({outputs_[i].name, std::move(tensor)});
  }
  return made;
}

Result<std::vector<NamedTensor>> ModelContext::run(std::span<const NamedTensor> inputs) {
  FETTLE_TRY(std::vector<NamedTensor> outputs, make_outputs(inputs));
  FETTLE_TRY_VOID(run_into(inputs, outputs));
  return outputs;
}

Result<> ModelContext::run_into(std::span<const NamedTensor> inputs, std::span<NamedTensor> outputs) {
  FETTLE_TRY_VOID(take_inputs(inputs));
  FETTLE_TRY_VOID(take_outputs(outputs));
  FETTLE_TRY_VOID(checked(functions().run(handle_.get(), inputs_.data(), outputs_.data())));
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const FettleTensor& made = outputs_[i];
    const auto output = std::ranges::find(outputs, made.name, &NamedTensor::name);
    if (output == outputs.end()) continue;
    std::vector<int64_t> shape(shape_of(made).begin(), shape_of(made).end());
    if (model_.shared_->output_is_late[i])
      FETTLE_TRY_VOID(take_late_output(made, std::move(shape), output->tensor));
    else if (output->tensor.shape() != shape)
      output->tensor.set_shape(std::move(shape));
    if (made.dtype == FETTLE_STRING) output->tensor.keep_strings();  // the context's last until its next call
  }
  return {};
}

bool ModelContext::is_late_output(std::string_view name) const {
  const auto found = std::ranges::find_if(outputs_, [&](const FettleTensor& output) { return output.name == name; });
  return found != outputs_.end() && model_.shared_->output_is_late[static_cast<size_t>(found - outputs_.begin())];
}

Result<> ModelContext::run_on(std::span<const FettleTensor> inputs, std::span<FettleTensor> outputs) {
  FETTLE_CHECK(outputs.size() == outputs_.size());
  FETTLE_TRY_VOID(take_inputs(inputs));
  return checked(functions().run(handle_.get(), inputs_.data(), outputs.data()));
}

Result<> ModelContext::run_in_order(std::span<const FettleTensor> inputs, std::span<FettleTensor> outputs) {
  FETTLE_CHECK(inputs.size() == inputs_.size() && outputs.size() == outputs_.size());
  return checked(functions().run(handle_.get(), inputs.data(), outputs.data()));
}

Result<> ModelContext::describe_outputs(std::span<const FettleTensor> inputs, std::span<FettleTensor> outputs) {
  FETTLE_CHECK(inputs.size() == inputs_.size() && outputs.size() == outputs_.size());
  return checked(functions().output_shapes(handle_.get(), inputs.data(), outputs.data()));
}

Result<> ModelContext::begin(std::span<const FettleTensor> inputs, std::span<FettleTensor> outputs) {
  FETTLE_CHECK(outputs.size() == outputs_.size());
  FETTLE_TRY_VOID(take_inputs(inputs));
  return checked(functions().begin(handle_.get(), inputs_.data(), outputs.data()));
}

Result<> ModelContext::wait() {
  const int32_t status = functions().wait(handle_.get());
  if (status == FETTLE_INVALID_ARGUMENT) return fail(ErrorCode::E710, functions().error(handle_.get()));
  return checked(status);
}

void ModelContext::cancel() { functions().cancel(handle_.get()); }

Result<Tensor> ModelContext::state(const std::string& name) {
  FettleTensor shown{};
  shown.struct_bytes = sizeof shown;
  FETTLE_TRY_VOID(checked(functions().get_state(handle_.get(), name.c_str(), &shown)));
  FETTLE_TRY(Tensor copy,
             Tensor::make(static_cast<FettleDtype>(shown.dtype), {shape_of(shown).begin(), shape_of(shown).end()}));
  FettleTensor taken = view_of(name.c_str(), copy);
  FETTLE_TRY_VOID(checked(functions().get_state(handle_.get(), name.c_str(), &taken)));
  return copy;
}

Result<> ModelContext::set_state(const std::string& name, const FettleTensor& tensor) {
  return checked(functions().set_state(handle_.get(), name.c_str(), &tensor));
}

Result<> ModelContext::reset_states() { return checked(functions().set_state(handle_.get(), nullptr, nullptr)); }

void ModelContext::set_tracer(const FettleTracer* tracer) {
  if (functions().struct_bytes >= offsetof(FettleFunctions, trace) + sizeof(FettleFunctions::trace))
    functions().trace(handle_.get(), tracer);
}

void ModelContext::set_kernel_hook(FettleKernelHook hook, void* user) {
  functions().profile(handle_.get(), hook, user);
}

}  // namespace fettle
