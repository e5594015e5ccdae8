#include "codegen/onednn/parts.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace fettle::onednn {
namespace {

/// So many columns or channels are computed together.
constexpr int64_t kTogether = 16;

enum class Along { kNothing, kOuter, kRows, kColumns };

struct Cut {
  Along along = Along::kNothing;
  size_t dimension = 0;  // of the destination
  int64_t extent = 1, step = 1;
};

Cut choose_cut(const Matched& matched, int threads) {
  const MatchedTensor& result = *matched.find(rt::onednn::kDestination);
  const size_t rank = result.dims.size();
  const auto at = [&](Along along, size_t d, int64_t step) { return Cut{along, d, result.dims[d], step}; };
  const bool product = matched.kind == rt::kOnednnMatmul;
  const size_t n_outer = product                                                              ? rank - 2
                         : matched.kind == rt::kOnednnConvolution || !matched.windows.empty() ? 1
                                                                                              : 0;
  for (size_t d = 0; d < n_outer; ++d)
    if (result.dims[d] >= threads) return at(Along::kOuter, d, 1);
  if (matched.kind == rt::kOnednnSoftmax || matched.kind == rt::kOnednnLayerNorm)
    return result.dims[0] >= threads ? at(Along::kOuter, 0, 1) : Cut{};
  const size_t rows = product ? rank - 2 : 2, columns = product ? rank - 1 : 1;
  const MatchedTensor* weights = matched.find(rt::onednn::kWeights);
  const bool grouped = !product && weights && weights->dims.size() > rank;
  const bool wide = weights && !grouped && result.dims[columns] >= kTogether * threads;
  if (result.dims[rows] >= (product && wide ? kTogether : 1) * threads) return at(Along::kRows, rows, 1);
  return wide ? at(Along::kColumns, columns, kTogether) : Cut{};
}

void cut_tensor(rt::OnednnTensor& tensor, size_t dimension, int64_t begin, int64_t end) {
  if (tensor.dims[dimension] == 1) return;
  tensor.offset_bytes += begin * tensor.strides[dimension] * int64_t{sizeof(float)};
  tensor.dims[dimension] = end - begin;
}

/// Rows of the image under the window, and how much padding is left.
void cut_image(rt::OnednnTensor& image, rt::OnednnPart& part, const MatchedWindow& window, int64_t begin, int64_t end) {
  const int64_t span = (window.window - 1) * window.dilation + 1;
  const int64_t first = begin * window.stride - window.padding_low;
  const int64_t last = (end - 1) * window.stride - window.padding_low + span;
  const int64_t from = std::clamp<int64_t>(first, 0, image.dims[2] - 1);
  const int64_t to = std::clamp<int64_t>(last, from + 1, image.dims[2]);
  part.padding_low[0] = from - first;
  part.padding_high[0] = last - to;
  image.offset_bytes += from * image.strides[2] * int64_t{sizeof(float)};
  image.dims[2] = to - from;
}

void cut_part(rt::OnednnPart& part, const Matched& matched, const Cut& cut, int64_t begin, int64_t end) {
  const bool product = matched.kind == rt::kOnednnMatmul;
  for (int32_t t = 0; t < part.n_tensors; ++t) {
    rt::OnednnTensor& tensor = part.tensors[t];
    const bool source = tensor.argument == rt::onednn::kSource, weights = tensor.argument == rt::onednn::kWeights;
    const bool bias = tensor.argument == rt::onednn::kBias;
    const bool of_channels = tensor.argument == rt::onednn::kScale || tensor.argument == rt::onednn::kShift;
    if (of_channels || (bias && !product && cut.along != Along::kColumns)) continue;
    if (cut.along == Along::kColumns) {
      if (source) continue;
      cut_tensor(tensor, product ? cut.dimension : weights || bias ? 0 : cut.dimension, begin, end);
    } else if (cut.along == Along::kRows && !product && source) {
      cut_image(tensor, part, matched.windows[0], begin, end);
    } else if (!weights || (product && cut.along == Along::kOuter)) {
      cut_tensor(tensor, cut.dimension, begin, end);
    }
  }
}

/// Dimensions of one element take the strides that a dense tensor would have: oneDNN knows its layouts by all strides.
void settle_strides(rt::OnednnTensor& tensor) {
  std::array<int32_t, rt::kOnednnMaxRank> order{};
  std::iota(order.begin(), order.end(), 0);
  const auto end = order.begin() + tensor.rank;
  std::sort(order.begin(), end,
            [&](int32_t a, int32_t b) { return std::pair(tensor.strides[a], -a) < std::pair(tensor.strides[b], -b); });
  int64_t whole = 1;
  for (auto d = order.begin(); d != end; ++d) {
    if (tensor.dims[*d] == 1) tensor.strides[*d] = whole;
    whole = std::max(whole, tensor.dims[*d] * tensor.strides[*d]);
  }
}

}  // namespace

std::vector<uint8_t> make_call(const Matched& matched, int threads, int packed, int packed_buffer) {
  const Cut cut = threads > 1 ? choose_cut(matched, threads) : Cut{};
  std::vector<std::pair<int64_t, int64_t>> ranges;
  const int64_t steps = cut.extent / cut.step, n = std::min<int64_t>({threads, steps, rt::kOnednnMaxParts});
  for (int64_t p = 0; p < n; ++p)
    ranges.push_back({p * steps / n * cut.step, p + 1 == n ? cut.extent : (p + 1) * steps / n * cut.step});
  if (cut.along == Along::kNothing) ranges = {{0, 1}};

  std::vector<uint8_t> bytes(sizeof(rt::OnednnCall) + ranges.size() * sizeof(rt::OnednnPart));
  rt::OnednnCall& call = call_in(bytes);
  call.kind = matched.kind;
  call.algorithm = matched.algorithm;
  call.epsilon = matched.epsilon;
  call.spatial = static_cast<int32_t>(matched.windows.size());
  call.n_ops = static_cast<int32_t>(matched.ops.size());
  call.n_parts = static_cast<int32_t>(ranges.size());
  std::ranges::copy(matched.ops, call.ops);
  for (size_t p = 0; p < ranges.size(); ++p) {
    rt::OnednnPart& part = call.parts[p];
    part.n_tensors = static_cast<int32_t>(matched.tensors.size());
    for (size_t t = 0; t < matched.tensors.size(); ++t) {
      const MatchedTensor& tensor = matched.tensors[t];
      part.tensors[t].argument = tensor.argument;
      part.tensors[t].buffer = tensor.param;
      part.tensors[t].rank = static_cast<int32_t>(tensor.dims.size());
      std::ranges::copy(tensor.dims, part.tensors[t].dims);
      std::ranges::copy(tensor.strides, part.tensors[t].strides);
    }
    for (size_t w = 0; w < matched.windows.size(); ++w) {
      const MatchedWindow& window = matched.windows[w];
      part.window[w] = window.window;
      part.strides[w] = window.stride;
      part.dilations[w] = window.dilation - 1;  // as oneDNN counts them
      part.padding_low[w] = window.padding_low;
      part.padding_high[w] = window.padding_high;
    }
    if (cut.along != Along::kNothing) cut_part(part, matched, cut, ranges[p].first, ranges[p].second);
    for (int32_t t = 0; t < part.n_tensors; ++t) {
      rt::OnednnTensor& tensor = part.tensors[t];
      settle_strides(tensor);
      if (packed < 0 || tensor.argument != rt::onednn::kWeights) continue;
      part.packed_from = tensor;
      part.packed_from.buffer = 0;  // of the prologue
      tensor.packed = 1;
      tensor.buffer = packed_buffer;
    }
  }
  return bytes;
}

}  // namespace fettle::onednn
