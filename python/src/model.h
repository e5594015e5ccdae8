#pragma once
// A compiled model and its contexts, as Python has them.

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/ndarray.h>

#include "binding.h"
#include "runtime/model.h"

namespace fettle::python {

using InputArray = nb::ndarray<nb::ro>;  // on any device

/// What calls of a model need to know, found once.
struct ModelFacts {
  struct Input {
    nb::object name;
    bool is_state = false;
  };
  struct Output {
    enum class Finish : uint8_t { kNone, kView, kConvert, kStrings };
    nb::object name;
    bool is_returned = false;  // a state's is not
    bool is_static = false;    // its shape is known before any call
    nb::object shape;          // then: a tuple
    nb::object stored;         // the type of the array that a call writes
    Finish finish = Finish::kNone;
    nb::object dtype;  // what it becomes
  };
  Model model;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  bool has_states = false;
  bool needs_shapes = false;  // of outputs, from the runtime, before a call
};

std::shared_ptr<const ModelFacts> facts_of(Model model);

/// A context, and what calls in it use, kept from one to the next. One call at a time, the interpreter's lock held.
class Caller {
 public:
  explicit Caller(std::shared_ptr<const ModelFacts> facts);

  /// values: one an input, in the model's order; null: none. out: None, an array, or a sequence of arrays. Returns the
  /// outputs, in the model's order. Errors: E704, E705, E710
  nb::list run(std::span<PyObject* const> values, nb::handle out);
  /// Seconds of a run, on average, with nothing of Python around it.
  double time(std::span<PyObject* const> values, int64_t runs);
  /// As run, on a thread of the context's.
  void begin(std::span<PyObject* const> values);
  nb::list wait();
  void set_state(const std::string& name, nb::handle array);

  const ModelFacts& facts() const { return *facts_; }
  ModelContext& context() { return context_; }

 private:
  class Views;
  void take_inputs(std::span<PyObject* const> values);
  void take_input(size_t i, PyObject* value);
  /// Of numpy's arrays that lie right; `how`: flags of the buffer protocol. False: of others.
  bool take_buffer(PyObject* value, int how, FettleTensor& tensor, std::vector<int64_t>& strides);
  /// Fills in what the array is, which stays until let_go. name: of errors.
  void take_array(PyObject* value, nb::handle name, FettleTensor& tensor, std::vector<int64_t>& strides);
  void prepare_outputs(nb::handle out);
  void allocate_output(size_t i);
  void take_output(size_t i, PyObject* given);
  void check_overlaps() const;
  bool is_like_before() const;
  nb::list results();
  nb::object result(size_t i);
  void check_idle() const;
  void let_go();

  std::shared_ptr<const ModelFacts> facts_;
  ModelContext context_;
  std::vector<FettleTensor> inputs_, outputs_;
  std::vector<std::vector<int64_t>> strides_;  // of inputs
  std::vector<Py_buffer> views_;
  std::vector<InputArray> arrays_;
  std::vector<nb::object> kept_;  // outputs by their numbers: arrays that are written
  struct Given {
    std::vector<int64_t> shape;
    void* data = nullptr;
  };
  std::vector<Given> given_;    // where is_given_
  std::vector<bool> is_given_;  // by out=
  std::vector<std::vector<FettleString>> strings_;
  std::vector<nb::object> bytes_;
  std::vector<int64_t> extents_, extents_before_;
  bool is_begun_ = false;
  int64_t ns_before_ = INT64_MAX;  // what the run before took
};

struct PyModel {
  explicit PyModel(std::shared_ptr<const ModelFacts> known) : facts(std::move(known)) {}
  PyModel(const PyModel&) = delete;
  PyModel& operator=(const PyModel&) = delete;

  std::shared_ptr<const ModelFacts> facts;
  std::vector<std::unique_ptr<Caller>> idle;  // those of calls that ended; the interpreter's lock guards it
};

struct KernelTime {
  int32_t kernel;
  int64_t begin_ns, end_ns;
};
using KernelTimes = std::vector<KernelTime>;

struct PyModelContext {
  std::unique_ptr<KernelTimes> times = {};  // where calls are recorded; before `caller`, which writes there
  std::unique_ptr<Caller> caller;
  std::atomic<bool> used{false};  // by another thread, which has let go of the interpreter
};

/// (name, dtype, shape, array, or a list of strings)
nb::tuple copied(const FettleTensor& tensor);

void bind_model_calls(nb::class_<PyModel>& model, nb::class_<PyModelContext>& context);
void bind_model_profile(nb::class_<PyModel>& model, nb::class_<PyModelContext>& context);

}  // namespace fettle::python
