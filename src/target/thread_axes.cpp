#include "target/thread_axes.h"

#include <algorithm>
#include <iterator>

namespace fettle {
namespace {

constexpr std::string_view kAxes[] = {"blockIdx.x",  "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y",
                                      "threadIdx.z", "vthread",    "vthread.x",  "vthread.y",   "vthread.z"};

}  // namespace

bool is_thread_axis(std::string_view axis) { return std::ranges::find(kAxes, axis) != std::end(kAxes); }

bool is_virtual_thread(std::string_view axis) { return axis.starts_with("vthread") && is_thread_axis(axis); }

bool has_thread_axis(const Target& target, std::string_view axis) {
  if (is_virtual_thread(axis)) return true;
  return target.find_thread_axis(axis) != nullptr;
}

bool is_block_axis(std::string_view axis) { return axis.starts_with("blockIdx.") && is_thread_axis(axis); }

bool is_block_thread_axis(std::string_view axis) { return axis.starts_with("threadIdx.") && is_thread_axis(axis); }

int axis_dimension(std::string_view axis) {
  const char last = axis.empty() ? 'x' : axis.back();
  return last == 'z' ? 2 : last == 'y' ? 1 : 0;
}

}  // namespace fettle
