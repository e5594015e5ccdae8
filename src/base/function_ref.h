#pragma once
// FunctionRef: a callable that somebody else keeps, as an argument: nothing is copied, nothing allocated.

#include <memory>
#include <type_traits>
#include <utility>

namespace fettle {

template <class Signature>
class FunctionRef;

/// Good while the callable lives: for parameters, never for members that outlast the call. May be null.
template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  FunctionRef() = default;
  FunctionRef(std::nullptr_t) {}
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> && std::is_invocable_r_v<R, F&, Args...> &&
             !std::is_pointer_v<std::decay_t<F>>)
  FunctionRef(F&& f)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}

  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }
  explicit operator bool() const { return call_ != nullptr; }

 private:
  void* object_ = nullptr;
  R (*call_)(void*, Args...) = nullptr;
};

}  // namespace fettle
