// Errors between the two languages: a Diagnostic becomes a fettle.Error, and one that Python code raised a Diagnostic.

#include <thread>

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include "binding.h"
#include "schedule/schedule.h"

namespace fettle::python {
namespace {

// What a fettle.Error keeps of its diagnostic: the program is printed when someone asks.
struct KeptDiagnostic {
  Diagnostic diagnostic;
};

std::thread::id& owner() {
  static std::thread::id id;
  return id;
}

nb::object error_class() { return nb::module_::import_("fettle.errors").attr("Error"); }

void set_error(const Diagnostic& d) {
  const ErrorInfo& info = error_info(d.code);
  nb::object error = error_class()(std::string(info.name), d.message, d.where, std::string(info.meaning),
                                   std::string(info.remedy), nb::cast(KeptDiagnostic{d}));
  PyErr_SetObject(error_class().ptr(), error.ptr());
}

}  // namespace

void raise(Diagnostic diagnostic) { throw Failure{std::move(diagnostic)}; }
void raise(ErrorCode code, std::string message, std::string where) {
  throw Failure{Diagnostic(code, std::move(message), std::move(where))};
}

Diagnostic refusal(nb::python_error& error) {
  const nb::object type = error_class();
  if (!error.matches(type)) throw std::move(error);
  const nb::object kept = nb::getattr(error.value(), "_diagnostic", nb::none());
  KeptDiagnostic* known = nullptr;
  if (nb::try_cast(kept, known) && known) return known->diagnostic;
  // Raised by Python code: fettle.Error("E227", "…").
  const auto name = nb::cast<std::string>(nb::str(error.value().attr("code")));
  const ErrorInfo* info = find_error(name);
  return {info ? info->code : ErrorCode::E709, nb::cast<std::string>(nb::str(error.value().attr("message"))),
          nb::cast<std::string>(nb::str(error.value().attr("place")))};
}

void on_owner_thread() {
  if (std::this_thread::get_id() != owner())
    raise(ErrorCode::E709, "programs and schedules belong to the thread that imported fettle; kernels run on any");
}

void bind_errors(nb::module_& m) {
  owner() = std::this_thread::get_id();
  nb::class_<KeptDiagnostic>(m, "KeptDiagnostic").def("explain", [](const KeptDiagnostic& kept) {
    return explain(kept.diagnostic);
  });
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const Failure& failure) {
      set_error(failure.diagnostic);
    } catch (const std::bad_cast&) {
      PyErr_SetString(PyExc_TypeError, "an argument has the wrong type, or a number does not fit into 64 bits");
    }
  });
  m.def("error_table", [] {
    nb::dict table;
    size_t count = 0;
    const ErrorInfo* infos = error_table(&count);
    for (size_t i = 0; i < count; ++i)
      table[nb::str(infos[i].name.data(), infos[i].name.size())] =
          nb::make_tuple(std::string(infos[i].meaning), std::string(infos[i].remedy));
    return table;
  });
}

}  // namespace fettle::python
