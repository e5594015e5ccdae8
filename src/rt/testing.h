#pragma once
// For tests: models by hand, and contexts of them.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rt/model.h"

namespace fettle::rt {

/// A description, or, with data, a tensor to be given.
inline FettleTensor tensor(const char* name, FettleDtype dtype, const int64_t* of_shape, int32_t rank,
                           const void* data = nullptr) {
  FettleTensor made{};
  made.struct_bytes = sizeof made;
  made.name = name;
  made.dtype = dtype;
  made.rank = rank;
  made.shape = of_shape;
  made.data = const_cast<void*>(data);
  return made;
}

/// A description of a model of these tensors that has no more than it must.
inline FettleModelInfo describe(const char* name, const FettleTensor* inputs, int32_t n_inputs,
                                const FettleTensor* outputs, int32_t n_outputs, FettleKernel entry) {
  FettleModelInfo info{};
  info.magic = FETTLE_MAGIC;
  info.abi_version = FETTLE_ABI_VERSION;
  info.struct_bytes = sizeof info;
  info.name = name;
  info.target_features = "sse2";
  info.inputs = inputs;
  info.outputs = outputs;
  info.n_inputs = n_inputs;
  info.n_outputs = n_outputs;
  info.default_threads = 2;
  info.entry = entry;
  info.functions = &fettle_rt_functions;
  return info;
}

inline FettleOptions make_options(int32_t threads) {
  FettleOptions options{};
  options.struct_bytes = sizeof options;
  options.threads = threads;
  return options;
}

/// A model and a context of it.
struct Running {
  FettleModel* model;
  FettleContext* context;

  explicit Running(const FettleModelInfo& info, int32_t threads = 0) {
    const FettleOptions options = make_options(threads);
    model = fettle_rt_open(&info, FETTLE_ABI_VERSION, &options);
    context = fettle_rt_create_context(model);
    EXPECT_NE(context, nullptr) << fettle_rt_error(nullptr);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() {
    fettle_rt_close(model);  // in any order
    fettle_rt_destroy_context(context);
  }

  std::string error() const { return fettle_rt_error(context); }
};

inline std::vector<float> floats(const FettleTensor& y) {
  const auto* data = static_cast<const float*>(y.data);
  return {data, data + fettle_tensor_bytes(&y) / 4};
}

}  // namespace fettle::rt
