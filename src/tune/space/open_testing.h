#pragma once
// Runs what was made of a program of open sizes for many sizes, beside the interpreter: for tests only.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "schedule/dataflow/dataflow.h"
#include "schedule/testing.h"
#include "tune/parts/loops.h"
#include "tune/parts/tile_steps.h"
#include "tune/space/open_workloads.h"

namespace fettle::testing {

inline double value_at(TestTensor& tensor, const Buffer& buffer, const std::vector<int64_t>& index) {
  if (buffer->dtype == kI64) {
    int64_t x;
    std::memcpy(&x, tensor.at(index), sizeof x);
    return static_cast<double>(x);
  }
  if (buffer->dtype == kF16) {
    _Float16 x;
    std::memcpy(&x, tensor.at(index), sizeof x);
    return static_cast<double>(x);
  }
  if (buffer->dtype == kI8) return static_cast<double>(*reinterpret_cast<const int8_t*>(tensor.at(index)));
  float x;
  std::memcpy(&x, tensor.at(index), sizeof x);
  return x;
}

// The outputs of `run` on small integers are those of the program as it is written.
inline ::testing::AssertionResult agrees(const OpenWorkload& workload, const Func& before, const Func& after,
                                         const std::vector<int64_t>& ints, const RunFn& run) {
  if (workload.tolerance == 0) return same_result(before, after, ints, run);
  std::vector<TestTensor> tensors[2];
  const Func funcs[2] = {before, after};
  for (int f = 0; f < 2; ++f) {
    Env env;
    for (size_t i = 0; i < ints.size(); ++i) env.push(funcs[f]->int_params[i].var.get(), ints[i]);
    for (size_t p = 0; p < before->params.size(); ++p) {
      TestTensor& tensor = tensors[f].emplace_back(funcs[f]->params[p].buffer, env);
      RandomStream stream{7, p};
      tensor.fill(0xff);
      if (before->params[p].kind != ParamKind::kOutput)
        for_each_index(tensor.logical_shape(), [&](const std::vector<int64_t>& index) {
          tensor.set(index, static_cast<int64_t>(stream.below(7)) - 3);
        });
    }
    std::vector<BufferArg> args;
    for (TestTensor& tensor : tensors[f]) args.push_back(tensor.arg());
    if (const Result<> done = f == 1 ? run(args, ints) : interpret(funcs[f], args, ints); !done)
      return ::testing::AssertionFailure() << error_text(done.error());
  }
  std::string difference;
  for (size_t p = 0; p < before->params.size(); ++p) {
    const Buffer& buffer = before->params[p].buffer;
    if (before->params[p].kind != ParamKind::kOutput) continue;
    double greatest = 1;
    const auto shape = tensors[0][p].logical_shape();
    for_each_index(shape, [&](const std::vector<int64_t>& index) {
      if (const double x = std::abs(value_at(tensors[0][p], buffer, index)); std::isfinite(x))
        greatest = std::max(greatest, x);
    });
    for_each_index(shape, [&](const std::vector<int64_t>& index) {
      const double x = value_at(tensors[0][p], buffer, index), y = value_at(tensors[1][p], buffer, index);
      const bool same = x == y || (std::isnan(x) && std::isnan(y)) || std::abs(x - y) <= workload.tolerance * greatest;
      if (difference.empty() && !same) difference = std::to_string(x) + " before, " + std::to_string(y) + " after";
    });
  }
  if (difference.empty()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << difference << "\n" << to_text(after);
}

inline int64_t allowed(int64_t wanted, const IntParam& param) {
  const int64_t least = -floordiv_int(-param.min, param.multiple_of) * param.multiple_of;
  return std::max(least, std::min(wanted, param.max) / param.multiple_of * param.multiple_of);
}

// Values of the parameters: each small and large one, with others beside it.
inline std::vector<std::vector<int64_t>> values_of(const OpenWorkload& workload) {
  constexpr int64_t kValues[] = {0, 1, 2, 3, 7, 8, 13, 16, 17, 31, 64, 100};
  constexpr size_t n = std::size(kValues);
  std::vector<std::vector<int64_t>> all;
  for (size_t i = 0; i < n; ++i)
    for (size_t shift : workload.sizes.size() > 1 ? std::vector<size_t>{0, 5, 9} : std::vector<size_t>{0}) {
      std::vector<int64_t> values;
      for (size_t p = 0; p < workload.sizes.size(); ++p)
        values.push_back(allowed(kValues[(i + p * shift) % n], workload.sizes[p]));
      if (std::ranges::find(all, values) == all.end()) all.push_back(std::move(values));
    }
  return all;
}

// What has no terms is the identity of the reduction: it begins outside of its loops.
inline Func with_identities(const Func& func) {
  Schedule s(func);
  std::vector<std::string> reductions;
  for (const BlockNode* block : blocks_of(func.root()))
    if (block->init) reductions.push_back(block->name);
  for (const std::string& name : reductions) {
    const auto block = get_block(s, {.name = name});
    const auto loops = loops_by_kind(s, *block);
    FETTLE_CHECK(begin_sums(s, *block, loops->reduction.front()).has_value());
  }
  return s.func();
}

inline std::string print(const std::vector<int64_t>& values) {
  std::string text;
  for (const int64_t value : values) text += std::to_string(value) + " ";
  return text;
}

}  // namespace fettle::testing
