#pragma once
// What the files of the binding share: errors between the two languages, leases, and which thread may do what.

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <utility>

#include "base/result.h"

namespace fettle::python {

namespace nb = nanobind;

/// A Diagnostic on its way to Python, where it becomes a fettle.Error.
struct Failure {
  Diagnostic diagnostic;
};
[[noreturn]] void raise(Diagnostic diagnostic);
[[noreturn]] void raise(ErrorCode code, std::string message, std::string where = {});

/// The value, or fettle.Error.
template <class T>
T take(Result<T> result) {
  if (!result) raise(std::move(result).error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// The diagnostic of a fettle.Error that Python code raised. Any other exception goes on to whoever called.
Diagnostic refusal(nb::python_error& error);

/// Trees belong to one thread: the one that imported fettle. E709 from any other.
void on_owner_thread();

/// Something that lives shorter than the Python object that stands for it: null once it is gone.
template <class T>
struct Lease {
  T* object = nullptr;
  T& get(const char* what) const {
    if (!object) raise(ErrorCode::E709, std::string(what) + " is used after the call that it was made for");
    return *object;
  }
};
/// Ends the lease at the end of a scope.
template <class T>
class Lending {
 public:
  explicit Lending(T& object) : lease_(std::make_shared<Lease<T>>()) { lease_->object = &object; }
  Lending(const Lending&) = delete;
  Lending& operator=(const Lending&) = delete;
  ~Lending() { lease_->object = nullptr; }
  const std::shared_ptr<Lease<T>>& lease() const { return lease_; }

 private:
  std::shared_ptr<Lease<T>> lease_;
};

void bind_errors(nb::module_& m);
void bind_expressions(nb::module_& m);
void bind_tensors(nb::module_& m);
void bind_programs(nb::module_& m);
void bind_schedules(nb::module_& m);
void bind_kernels(nb::module_& m);
void bind_templates(nb::module_& m);
void bind_sketches(nb::module_& m);
void bind_runners(nb::module_& m);
void bind_cost_models(nb::module_& m);
void bind_search(nb::module_& m);
void bind_layouts(nb::module_& m);
void bind_tuning(nb::module_& m);
void bind_own_operators(nb::module_& m);
void bind_models(nb::module_& m);
void bind_teams(nb::module_& m);
void bind_model_files(nb::module_& m);
void bind_quantize(nb::module_& m);
void bind_graphs(nb::module_& m);
void bind_comprehensions(nb::module_& m);
void bind_model_tuning(nb::module_& m);

}  // namespace fettle::python
