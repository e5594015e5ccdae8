// Calls of models: arrays in and out without copies where they lie right, and little work around the model's own.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include "model.h"
#include "model_types.h"
#include "rt/tensor.h"
#include "runtime/dtype.h"

namespace fettle::python {
namespace {

/// Other threads need not wait for shorter runs; to let go of the interpreter's lock takes a microsecond or more where
/// others want it.
constexpr int64_t kShortRunNs = 20'000;

/// What Python has ready for calls. Never freed: the interpreter ends first.
struct Words {
  nb::object array_type = nb::module_::import_("numpy").attr("ndarray");
  nb::object empty = nb::module_::import_("numpy").attr("empty");
  nb::object view = nb::str("view"), astype = nb::str("astype"), shape = nb::str("shape"),
             dlpack = nb::str("__dlpack__");
  nb::object prepared = nb::module_::import_("fettle.model").attr("_prepared");
  nb::object bits = nb::module_::import_("fettle.kernel").attr("_bits");
  nb::object made = nb::module_::import_("fettle.model").attr("_array");
};
const Words& words() {
  static const auto* made = new Words;
  return *made;
}

/// Of the formats of the buffer protocol, those of this machine's order and size that numpy writes for whole types.
int32_t dtype_of_format(const char* format) {
  if (format == nullptr || format[0] == 0 || format[1] != 0) return 0;
  switch (format[0]) {
    case '?':
      return FETTLE_BOOL;
    case 'b':
      return FETTLE_I8;
    case 'B':
      return FETTLE_U8;
    case 'h':
      return FETTLE_I16;
    case 'H':
      return FETTLE_U16;
    case 'i':
      return FETTLE_I32;
    case 'I':
      return FETTLE_U32;
    case 'l':
    case 'q':
      return FETTLE_I64;
    case 'L':
    case 'Q':
      return FETTLE_U64;
    case 'e':
      return FETTLE_F16;
    case 'f':
      return FETTLE_F32;
    case 'd':
      return FETTLE_F64;
    default:
      return 0;
  }
}

int32_t dtype_of(nb::dlpack::dtype type) {
  using Code = nb::dlpack::dtype_code;
  if (type.lanes != 1) return 0;
  const auto is = [&](Code code, int bits) { return type.code == static_cast<uint8_t>(code) && type.bits == bits; };
  if (is(Code::Bool, 8)) return FETTLE_BOOL;
  if (is(Code::Bfloat, 16)) return FETTLE_BF16;
  constexpr std::pair<int, FettleDtype> kFloats[] = {{16, FETTLE_F16}, {32, FETTLE_F32}, {64, FETTLE_F64}};
  constexpr std::pair<int, FettleDtype> kInts[] = {
      {8, FETTLE_I8}, {16, FETTLE_I16}, {32, FETTLE_I32}, {64, FETTLE_I64}};
  constexpr std::pair<int, FettleDtype> kUInts[] = {
      {8, FETTLE_U8}, {16, FETTLE_U16}, {32, FETTLE_U32}, {64, FETTLE_U64}};
  for (const auto& [bits, made] : kFloats)
    if (is(Code::Float, bits)) return made;
  for (const auto& [bits, made] : kInts)
    if (is(Code::Int, bits)) return made;
  for (const auto& [bits, made] : kUInts)
    if (is(Code::UInt, bits)) return made;
  return 0;
}

/// One a model's output, without data: the context's memory is copied from.
std::vector<FettleTensor> blank(std::span<const FettleTensor> tensors) { return {tensors.begin(), tensors.end()}; }

/// A list of str; bytes that are no UTF-8 are escaped, as os.fsdecode does.
nb::list strings_of(const FettleTensor& tensor) {
  nb::list list;
  const auto* strings = static_cast<const FettleString*>(tensor.data);
  const auto count = static_cast<size_t>(fettle_tensor_bytes(&tensor)) / sizeof(FettleString);
  for (size_t i = 0; i < count; ++i)
    list.append(nb::steal(PyUnicode_DecodeUTF8(strings[i].data, strings[i].bytes, "surrogateescape")));
  return list;
}

nb::tuple shape_of(const FettleTensor& tensor) {
  nb::tuple shape = nb::steal<nb::tuple>(PyTuple_New(tensor.rank));
  for (int32_t d = 0; d < tensor.rank; ++d) PyTuple_SET_ITEM(shape.ptr(), d, PyLong_FromLongLong(tensor.shape[d]));
  return shape;
}

[[noreturn]] void wrong_count(const char* what, size_t given, size_t wanted, std::span<const FettleTensor> known) {
  std::string names;
  for (const FettleTensor& tensor : known) names += fmt::format("{}'{}'", names.empty() ? "" : ", ", tensor.name);
  raise(ErrorCode::E704, fmt::format("{} {} were given, and the model has {}: {}", given, what, wanted, names));
}

}  // namespace

nb::tuple copied(const FettleTensor& tensor) {
  nb::object data;
  if (tensor.dtype == FETTLE_STRING)
    data = strings_of(tensor);
  else
    data = nb::bytearray(tensor.data, static_cast<size_t>(fettle_tensor_bytes(&tensor)));
  return nb::make_tuple(std::string(tensor.name), std::string(model_dtype_name(tensor.dtype)), shape_of(tensor), data);
}

std::shared_ptr<const ModelFacts> facts_of(Model model) {
  auto facts = std::make_shared<ModelFacts>(ModelFacts{.model = std::move(model), .inputs = {}, .outputs = {}});
  const nb::object numpy = nb::module_::import_("numpy");
  const nb::object numpy_dtype = nb::module_::import_("fettle.kernel").attr("_numpy_dtype");
  const auto interned = [](const char* name) { return nb::steal(PyUnicode_InternFromString(name)); };
  for (const FettleTensor& input : facts->model.inputs()) facts->inputs.push_back({interned(input.name)});
  for (const FettleTensor& output : facts->model.outputs()) {
    ModelFacts::Output made{.name = interned(output.name), .is_returned = true};
    const std::string name = model_dtype_name(output.dtype);
    made.is_static = fettle_tensor_bytes(&output) >= 0;
    if (made.is_static) made.shape = shape_of(output);
    facts->needs_shapes = facts->needs_shapes || !made.is_static;
    using Finish = ModelFacts::Output::Finish;
    if (output.dtype == FETTLE_STRING) {
      made.finish = Finish::kStrings;
    } else {
      made.dtype = numpy_dtype(name);
      made.stored = made.dtype;
      const bool is_narrow = output.dtype >= FETTLE_I4 && output.dtype <= FETTLE_U2;
      if (is_narrow || output.dtype == FETTLE_BF16 || output.dtype > FETTLE_U2) {
        made.finish = is_narrow ? Finish::kConvert : Finish::kView;
        const char* stored = output.dtype == FETTLE_BF16                              ? "uint16"
                             : output.dtype == FETTLE_I4 || output.dtype == FETTLE_I2 ? "int8"
                                                                                      : "uint8";
        made.stored = numpy.attr("dtype")(stored);
      }
    }
    facts->outputs.push_back(std::move(made));
  }
  const FettleModelInfo& info = facts->model.info();
  for (int32_t s = 0; s < info.n_states; ++s) {
    const FettleState& state = *rt::nth(info.states, s);
    facts->inputs[static_cast<size_t>(state.input)].is_state = true;
    facts->outputs[static_cast<size_t>(state.output)].is_returned = false;
    facts->has_states = true;
  }
  return facts;
}

Caller::Caller(std::shared_ptr<const ModelFacts> facts)
    : facts_(std::move(facts)),
      context_(take(facts_->model.make_context())),
      inputs_(blank(facts_->model.inputs())),
      outputs_(blank(facts_->model.outputs())),
      strides_(inputs_.size()),
      kept_(outputs_.size()),
      given_(outputs_.size()),
      is_given_(outputs_.size(), false) {}

/// What a call holds of its arrays, until its end.
class Caller::Views {
 public:
  explicit Views(Caller& caller) : caller_(caller) {}
  Views(const Views&) = delete;
  Views& operator=(const Views&) = delete;
  ~Views() { caller_.let_go(); }

 private:
  Caller& caller_;
};

void Caller::let_go() {
  for (Py_buffer& view : views_) PyBuffer_Release(&view);
  views_.clear();
  arrays_.clear();
  strings_.clear();
  bytes_.clear();
  for (nb::object& kept : kept_) kept = nb::object();
}

void Caller::take_input(size_t i, PyObject* value) {
  const FettleTensor& expected = facts_->model.inputs()[i];
  inputs_[i] = expected;
  if (value != nullptr && value != Py_None) return take_array(value, facts_->inputs[i].name, inputs_[i], strides_[i]);
  if (!facts_->inputs[i].is_state)
    raise(ErrorCode::E704, fmt::format("input '{}' {} is missing", expected.name, tensor_type_to_string(expected)));
}

void Caller::set_state(const std::string& name, nb::handle array) {
  const Views views(*this);
  FettleTensor tensor{};
  tensor.struct_bytes = sizeof tensor;
  tensor.name = name.c_str();
  std::vector<int64_t> strides;
  take_array(array.ptr(), nb::str(name.c_str()), tensor, strides);
  take(context_.set_state(name, tensor));
}

bool Caller::take_buffer(PyObject* value, int how, FettleTensor& tensor, std::vector<int64_t>& strides) {
  strides.clear();
  if (reinterpret_cast<PyObject*>(Py_TYPE(value)) != words().array_type.ptr()) return false;
  Py_buffer view;
  if (PyObject_GetBuffer(value, &view, how | PyBUF_FORMAT) != 0) {
    PyErr_Clear();
    return false;
  }
  views_.push_back(view);
  const int32_t dtype = dtype_of_format(view.format);
  bool lies_right = dtype != 0 && reinterpret_cast<uintptr_t>(view.buf) % static_cast<uintptr_t>(view.itemsize) == 0;
  for (int d = 0; lies_right && d < view.ndim; ++d) {
    lies_right = view.strides[d] % view.itemsize == 0;
    strides.push_back(view.strides[d] / view.itemsize);
  }
  if (!lies_right) {
    strides.clear();
    return false;
  }
  tensor.dtype = dtype;
  tensor.rank = view.ndim;
  tensor.data = view.buf;
  tensor.shape = reinterpret_cast<const int64_t*>(view.shape);
  tensor.strides = strides.data();
  return true;
}

void Caller::take_array(PyObject* value, nb::handle name, FettleTensor& tensor, std::vector<int64_t>& strides) {
  if (take_buffer(value, PyBUF_STRIDED_RO, tensor, strides)) return;
  const auto take_dense = [&](InputArray array, int32_t dtype) {
    const InputArray& kept = arrays_.emplace_back(std::move(array));
    tensor.dtype = dtype;
    tensor.rank = static_cast<int32_t>(kept.ndim());
    static std::byte nothing;
    tensor.data = kept.data() == nullptr ? &nothing : const_cast<void*>(kept.data());
    tensor.device = kept.device_type();
    tensor.device_index = kept.device_id();
    tensor.shape = kept.shape_ptr();
    for (size_t d = 0; d < kept.ndim(); ++d) strides.push_back(static_cast<int64_t>(kept.stride(d)));
    tensor.strides = strides.data();
  };
  const nb::handle given(value);
  const bool is_numpy = nb::isinstance(given, words().array_type);
  if (InputArray array; !is_numpy && nb::hasattr(given, words().dlpack) && nb::try_cast(given, array, false))
    if (const int32_t dtype = dtype_of(array.dtype())) return take_dense(std::move(array), dtype);
  const nb::object prepared = words().prepared(name, given);
  const auto dtype = model_dtype(nb::cast<std::string>(prepared[0]));
  nb::object data = prepared[1];
  const bool is_string = dtype == FETTLE_STRING;
  const nb::object ends = is_string ? nb::object(data[1]) : data;
  InputArray array = nb::cast<InputArray>(ends);
  if (static_cast<int64_t>(array.itemsize()) != (is_string ? 8 : dtype_bytes(dtype)))
    raise(ErrorCode::E705, fmt::format("input '{}' is an array of another type", nb::cast<std::string>(name)));
  const auto count = array.size();
  const auto* end_of = static_cast<const int64_t*>(array.data());
  take_dense(std::move(array), dtype);
  if (!is_string) return;
  const auto bytes = nb::cast<nb::bytes>(nb::object(data[0]));
  std::vector<FettleString>& strings = strings_.emplace_back();
  int64_t begin = 0;
  for (size_t s = 0; s < count; ++s) {
    strings.push_back({bytes.c_str() + begin, end_of[s] - begin});
    begin = end_of[s];
  }
  bytes_.push_back(bytes);
  tensor.data = strings.data();
}

void Caller::take_inputs(std::span<PyObject* const> values) {
  if (values.size() > inputs_.size()) wrong_count("inputs", values.size(), inputs_.size(), facts_->model.inputs());
  extents_.clear();
  for (size_t i = 0; i < inputs_.size(); ++i) {
    take_input(i, i < values.size() ? values[i] : nullptr);
    const FettleTensor& tensor = inputs_[i];
    extents_.push_back(tensor.data == nullptr ? -1 : tensor.rank);
    if (tensor.data != nullptr) extents_.insert(extents_.end(), tensor.shape, tensor.shape + tensor.rank);
  }
}

void Caller::allocate_output(size_t i) {
  const ModelFacts::Output& output = facts_->outputs[i];
  const nb::object shape = output.is_static ? output.shape : nb::object(shape_of(outputs_[i]));
  PyObject* arguments[] = {shape.ptr(), output.stored.ptr()};
  nb::object array = nb::steal(PyObject_Vectorcall(words().empty.ptr(), arguments, 2, nullptr));
  Py_buffer view;
  if (!array.is_valid() || PyObject_GetBuffer(array.ptr(), &view, PyBUF_WRITABLE) != 0) throw nb::python_error();
  views_.push_back(view);
  outputs_[i].data = view.buf;
  outputs_[i].capacity_bytes = view.len;
  kept_[i] = std::move(array);
}

void Caller::take_output(size_t i, PyObject* value) {
  const FettleTensor& expected = facts_->model.outputs()[i];
  FettleTensor& output = outputs_[i];
  const nb::handle given(value);
  const auto refuse = [&](const std::string& why) {
    raise(ErrorCode::E705, fmt::format("output '{}' {}: {}", expected.name, tensor_type_to_string(expected), why));
  };
  if (facts_->outputs[i].finish == ModelFacts::Output::Finish::kStrings ||
      facts_->outputs[i].finish == ModelFacts::Output::Finish::kConvert)
    refuse("it is not written into an array that is given");
  if (output.rank > 0 && output.shape == nullptr) refuse("its shape is not known");
  FettleTensor taken = expected;
  std::vector<int64_t> shape, strides;
  if (!take_buffer(value, PyBUF_STRIDED, taken, strides)) {
    const bool is_numpy = nb::isinstance(given, words().array_type);
    nb::ndarray<> array;
    if (!nb::try_cast(is_numpy ? words().bits(given) : nb::borrow(given), array, false))
      refuse("what is given is no array that can be written to");
    taken.dtype = dtype_of(array.dtype());
    if (is_numpy && facts_->outputs[i].finish == ModelFacts::Output::Finish::kView)
      taken.dtype = nb::object(given.attr("dtype")).equal(facts_->outputs[i].dtype) ? expected.dtype : 0;
    for (size_t d = 0; d < array.ndim(); ++d) {
      shape.push_back(static_cast<int64_t>(array.shape(d)));
      strides.push_back(static_cast<int64_t>(array.stride(d)));
    }
    taken.rank = static_cast<int32_t>(array.ndim());
    taken.device = array.device_type();
    taken.device_index = array.device_id();
    taken.shape = shape.data();
    taken.data = array.data();
  }
  if (taken.dtype != expected.dtype || taken.rank != expected.rank)
    refuse(fmt::format("the array that is given is {}",
                       taken.dtype == 0 ? "of another type" : tensor_type_to_string(taken)));
  for (int32_t d = 0; d < taken.rank; ++d)
    if (output.shape[d] >= 0 && output.shape[d] != taken.shape[d])
      refuse(fmt::format("axis {} of the array that is given is {}, not {}", d, taken.shape[d], output.shape[d]));
  if (!rt::is_dense(taken.shape, strides.data(), taken.rank)) refuse("the array that is given is not in C order");
  kept_[i] = nb::borrow(given);
  is_given_[i] = true;
  given_[i] = {.shape = {taken.shape, taken.shape + taken.rank}, .data = taken.data};
  // What only the call tells the size of is copied there.
  if (fettle_tensor_bytes(&output) < 0) return;
  output.data = taken.data;
  output.device = taken.device;
  output.device_index = taken.device_index;
  output.capacity_bytes = fettle_tensor_bytes(&output);
}

void Caller::check_overlaps() const {
  struct Range {
    const char *begin, *end;
    bool overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
  };
  const auto range_of = [](const FettleTensor& tensor, const int64_t* strides) {
    const int64_t item = dtype_bytes(tensor.dtype);
    int64_t least = 0, most = item;
    for (int32_t d = 0; strides != nullptr && d < tensor.rank; ++d) {
      const int64_t reach = (tensor.shape[d] - 1) * strides[d] * item;
      (reach < 0 ? least : most) += reach;
    }
    if (strides == nullptr) most = fettle_tensor_bytes(&tensor);
    const auto* data = static_cast<const char*>(tensor.data);
    return Range{data + least, data + (fettle_tensor_bytes(&tensor) == 0 ? least : most)};
  };
  for (size_t o = 0; o < outputs_.size(); ++o) {
    if (!is_given_[o] || outputs_[o].data == nullptr) continue;
    const Range range = range_of(outputs_[o], nullptr);
    for (const FettleTensor& input : inputs_)
      if (input.data != nullptr && range.overlaps(range_of(input, input.strides)))
        raise(ErrorCode::E705, fmt::format("output '{}' is to be written where input '{}' lies; give it other memory",
                                           outputs_[o].name, input.name));
    for (size_t other = 0; other < o; ++other)
      if (is_given_[other] && outputs_[other].data != nullptr && range.overlaps(range_of(outputs_[other], nullptr)))
        raise(ErrorCode::E705, fmt::format("outputs '{}' and '{}' are to be written to the same memory",
                                           outputs_[other].name, outputs_[o].name));
  }
}

bool Caller::is_like_before() const { return extents_ == extents_before_; }

void Caller::prepare_outputs(nb::handle out) {
  std::ranges::copy(facts_->model.outputs(), outputs_.begin());
  is_given_.assign(is_given_.size(), false);
  if (facts_->needs_shapes) take(context_.describe_outputs(inputs_, outputs_));
  std::vector<PyObject*> given;
  nb::object sequence;
  if (!out.is_none()) {
    const bool is_sequence = PyTuple_Check(out.ptr()) || PyList_Check(out.ptr());
    sequence = is_sequence ? nb::steal(PySequence_Tuple(out.ptr())) : nb::object(nb::make_tuple(out));
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(sequence.ptr()); ++k)
      given.push_back(PyTuple_GET_ITEM(sequence.ptr(), k));
    const auto count = static_cast<size_t>(std::ranges::count(facts_->outputs, true, &ModelFacts::Output::is_returned));
    if (given.size() != count) wrong_count("outputs", given.size(), count, facts_->model.outputs());
  }
  size_t next = 0;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const ModelFacts::Output& output = facts_->outputs[i];
    outputs_[i].struct_bytes = sizeof(FettleTensor);
    if (!output.is_returned) continue;
    if (!given.empty())
      take_output(i, given[next++]);
    else if (output.finish != ModelFacts::Output::Finish::kStrings && fettle_tensor_bytes(&outputs_[i]) >= 0)
      allocate_output(i);
  }
  if (!given.empty()) check_overlaps();
}

nb::object Caller::result(size_t i) {
  const ModelFacts::Output& output = facts_->outputs[i];
  const FettleTensor& made = outputs_[i];
  using Finish = ModelFacts::Output::Finish;
  if (is_given_[i]) {
    if (made.capacity_bytes >= 0 && made.data != nullptr) return kept_[i];
    if (!std::ranges::equal(given_[i].shape, std::span(made.shape, static_cast<size_t>(made.rank))))
      raise(ErrorCode::E705, fmt::format("output '{}' came to be {}, which the array that is given is not", made.name,
                                         tensor_type_to_string(made)));
    if (const int64_t bytes = fettle_tensor_bytes(&made); bytes > 0)
      std::memcpy(given_[i].data, made.data, static_cast<size_t>(bytes));
    return kept_[i];
  }
  // In the context's memory: a run told its size, or it is begun and awaited.
  if (!kept_[i].is_valid()) return words().made(model_dtype_name(made.dtype), shape_of(made), copied(made)[3]);
  if (output.finish == Finish::kNone) return kept_[i];
  const nb::object& word = output.finish == Finish::kView ? words().view : words().astype;
  PyObject* arguments[] = {kept_[i].ptr(), output.dtype.ptr()};
  nb::object viewed = nb::steal(PyObject_VectorcallMethod(word.ptr(), arguments, 2, nullptr));
  if (!viewed.is_valid()) throw nb::python_error();
  return viewed;
}

nb::list Caller::results() {
  nb::list list;
  for (size_t i = 0; i < outputs_.size(); ++i)
    if (facts_->outputs[i].is_returned) list.append(result(i));
  return list;
}

void Caller::check_idle() const {
  if (is_begun_) raise(ErrorCode::E710, "the context is being used by another call; make one for each thread");
}

nb::list Caller::run(std::span<PyObject* const> values, nb::handle out) {
  check_idle();
  const Views views(*this);
  take_inputs(values);
  prepare_outputs(out);
  const bool is_short = ns_before_ < kShortRunNs && is_like_before();
  const auto start = std::chrono::steady_clock::now();
  if (is_short) {
    take(context_.run_in_order(inputs_, outputs_));
  } else {
    Result<> done;
    {
      const nb::gil_scoped_release released;
      done = context_.run_in_order(inputs_, outputs_);
    }
    take(std::move(done));
  }
  ns_before_ = std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
  std::swap(extents_, extents_before_);
  return results();
}

double Caller::time(std::span<PyObject* const> values, int64_t runs) {
  check_idle();
  const Views views(*this);
  take_inputs(values);
  prepare_outputs(nb::none());
  const nb::gil_scoped_release released;
  const auto start = std::chrono::steady_clock::now();
  Result<> done;
  for (int64_t i = 0; done && i < runs; ++i) done = context_.run_in_order(inputs_, outputs_);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  take(std::move(done));
  return seconds.count() / static_cast<double>(runs);
}

void Caller::begin(std::span<PyObject* const> values) {
  check_idle();
  std::vector<FettleTensor> given;
  try {
    take_inputs(values);
    std::ranges::copy(facts_->model.outputs(), outputs_.begin());
    is_given_.assign(is_given_.size(), false);
    for (const FettleTensor& input : inputs_)
      if (input.data != nullptr) given.push_back(input);
    take(context_.begin(given, outputs_));
    is_begun_ = true;
  } catch (...) {
    let_go();
    throw;
  }
}

nb::list Caller::wait() {
  Result<> done;
  {
    const nb::gil_scoped_release released;
    done = context_.wait();
  }
  is_begun_ = false;
  const Views views(*this);
  take(std::move(done));
  return results();
}

namespace {

/// Keeps other threads from a context.
class Use {
 public:
  explicit Use(PyModelContext& context) : used_(context.used) {
    if (used_.exchange(true)) raise(ErrorCode::E710, "the context is being used by another thread; make one for each");
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use() { used_ = false; }

 private:
  std::atomic<bool>& used_;
};

/// A context of the model that no other call has.
class Borrowed {
 public:
  explicit Borrowed(PyModel& model) : model_(model) {
    if (model.idle.empty()) {
      caller_ = std::make_unique<Caller>(model.facts);
    } else {
      caller_ = std::move(model.idle.back());
      model.idle.pop_back();
      if (model.facts->has_states) take(caller_->context().reset_states());
    }
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  ~Borrowed() { model_.idle.push_back(std::move(caller_)); }
  Caller* operator->() { return caller_.get(); }

 private:
  PyModel& model_;
  std::unique_ptr<Caller> caller_;
};

/// Arrays by their names, in the model's order.
std::vector<PyObject*> in_order(const ModelFacts& facts, nb::dict named) {
  std::vector<PyObject*> values;
  size_t found = 0;
  for (const ModelFacts::Input& input : facts.inputs) {
    values.push_back(PyDict_GetItemWithError(named.ptr(), input.name.ptr()));
    found += values.back() != nullptr;
  }
  if (found == nb::len(named)) return values;
  for (const auto& [name, value] : named) {
    const auto is_it = [&](const ModelFacts::Input& input) { return input.name.equal(name); };
    if (std::ranges::any_of(facts.inputs, is_it)) continue;
    std::string known;
    for (const FettleTensor& tensor : facts.model.inputs())
      known += fmt::format("{}'{}' {}", known.empty() ? "" : ", ", tensor.name, tensor_type_to_string(tensor));
    raise(ErrorCode::E704, fmt::format("the model has no input '{}'; it has {}", nb::cast<std::string>(nb::str(name)),
                                       known.empty() ? "none" : known));
  }
  return values;
}

nb::dict by_name(const ModelFacts& facts, const nb::list& results) {
  nb::dict named;
  size_t next = 0;
  for (const ModelFacts::Output& output : facts.outputs)
    if (output.is_returned) named[output.name] = results[next++];
  return named;
}

nb::object one_or_all(const nb::list& results) {
  if (nb::len(results) == 1) return results[0];
  return nb::steal(PyList_AsTuple(results.ptr()));
}

std::span<PyObject* const> values_of(const nb::tuple& inputs) {
  return {reinterpret_cast<PyTupleObject*>(inputs.ptr())->ob_item, nb::len(inputs)};
}

}  // namespace

void bind_model_calls(nb::class_<PyModel>& model, nb::class_<PyModelContext>& context) {
  model
      .def(
          "_call",
          [](PyModel& self, const nb::tuple& inputs, nb::handle out) {
            return one_or_all(Borrowed(self)->run(values_of(inputs), out));
          },
          nb::arg("inputs"), nb::arg("out").none())
      .def(
          "_time",
          [](PyModel& self, const nb::tuple& inputs, int64_t runs) {
            return Borrowed(self)->time(values_of(inputs), std::max<int64_t>(runs, 1));
          },
          nb::arg("inputs"), nb::arg("runs"))
      .def("_run", [](PyModel& self, const nb::dict& named) {
        return by_name(*self.facts, Borrowed(self)->run(in_order(*self.facts, named), nb::none()));
      });
  context
      .def(
          "_call",
          [](PyModelContext& self, const nb::tuple& inputs, nb::handle out) {
            const Use use(self);
            return one_or_all(self.caller->run(values_of(inputs), out));
          },
          nb::arg("inputs"), nb::arg("out").none())
      .def("_run",
           [](PyModelContext& self, const nb::dict& named) {
             const Use use(self);
             const ModelFacts& facts = self.caller->facts();
             return by_name(facts, self.caller->run(in_order(facts, named), nb::none()));
           })
      .def("_begin",
           [](PyModelContext& self, const nb::dict& named) {
             const Use use(self);
             self.caller->begin(in_order(self.caller->facts(), named));
           })
      .def("_wait",
           [](PyModelContext& self) {
             const Use use(self);
             return by_name(self.caller->facts(), self.caller->wait());
           })
      .def("_cancel", [](PyModelContext& self) { self.caller->context().cancel(); })
      .def("_state",
           [](PyModelContext& self, const std::string& name) {
             const Use use(self);
             const Tensor tensor = take(self.caller->context().state(name));
             return copied(view_of(name.c_str(), tensor));
           })
      .def("_set_state",
           [](PyModelContext& self, const std::string& name, nb::handle array) {
             const Use use(self);
             self.caller->set_state(name, array);
           })
      .def("_reset_states", [](PyModelContext& self) {
        const Use use(self);
        take(self.caller->context().reset_states());
      });
}

}  // namespace fettle::python
