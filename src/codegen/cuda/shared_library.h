#pragma once
// A library that is loaded where it is present, and its functions.

#include <dlfcn.h>

#include <string>
#include <vector>

namespace fettle {

/// The first of `names` that there is, never unloaded.
struct SharedLibrary {
  explicit SharedLibrary(const std::vector<std::string>& names) {
    for (const std::string& name : names)
      if (!handle) handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    complete = handle != nullptr;
  }
  void* handle = nullptr;
  bool complete = false;  // it is there, with all that is imported from it
};

/// A function of such a library, to be called only where the library is complete; an optional one where `at` is set.
template <class Signature>
struct Imported {
  Imported(SharedLibrary& library, const char* name, bool is_optional = false)
      : at(library.handle ? reinterpret_cast<Signature*>(dlsym(library.handle, name)) : nullptr) {
    library.complete &= at != nullptr || is_optional;
  }
  template <class... Args>
  auto operator()(Args... args) const {
    return at(args...);
  }
  Signature* at;
};

}  // namespace fettle
