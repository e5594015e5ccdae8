#include "codegen/onednn/match.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "codegen/onednn/epilogue.h"
#include "codegen/onednn/program.h"
#include "codegen/onednn/rows.h"

namespace fettle::onednn {
namespace {

using Numbers = std::vector<int64_t>;

/// What an access does: how far each iterator of the reduction goes, in memory and in each dimension.
struct Access {
  int param = -1;
  Numbers strides;             // of each iterator, in elements
  std::vector<Index> indices;  // of each dimension
  Numbers shape, memory;       // extents and strides of the dimensions

  bool touches(size_t i) const { return strides[i] != 0; }
};

/// Iterators that are one dimension of each tensor: they follow one another in all of them.
struct Group {
  int64_t extent = 1;
  std::vector<int64_t> strides;  // of each tensor
};

Result<Access> access_of(const Func& program, const BufferNode* buffer, const std::vector<Expr>& indices,
                         const std::vector<Iterator>& iterators) {
  Access access;
  access.param = param_of(program, buffer);
  const auto shape = shape_of(*buffer), memory = strides_of(*buffer);
  if (!shape || !memory) return declined("a tensor has a layout of its own");
  access.shape = *shape;
  access.memory = *memory;
  access.strides.assign(iterators.size(), 0);
  for (size_t d = 0; d < indices.size(); ++d) {
    const auto index = index_of(indices[d], iterators);
    if (!index) return declined("an index is no sum of iterators");
    for (size_t i = 0; i < iterators.size(); ++i) access.strides[i] += index->coefficients[i] * access.memory[d];
    access.indices.push_back(*index);
  }
  return access;
}

bool is_constant_index(const Access& access) {
  return std::ranges::all_of(access.indices, [](const Index& index) { return index.constant == 0; });
}

/// The reduction of a program, its operands, and all that follows.
class Reduction {
 public:
  static Result<Reduction> read(const Func& program, const std::vector<Step>& steps);
  Result<Matched> match();

 private:
  explicit Reduction(const Func& program) : program_(program) {}

  Result<> read_operands(const std::vector<Step>& steps, const Step& step);
  Result<> read_rest(const std::vector<Step>& steps, size_t at);
  Result<> classify();
  Result<Matched> matmul();
  Result<Matched> windows();
  std::vector<const Access*> tensors() const;
  std::vector<Group> groups(std::vector<size_t> iterators) const;
  Result<> add_ops(Matched& matched, const std::vector<const Group*>& dimensions, size_t channels) const;
  MatchedTensor tensor(int32_t argument, size_t number, const std::vector<const Group*>& dimensions) const;
  bool is_f32() const;

  const Func& program_;
  std::vector<Iterator> iterators_;
  bool is_maximum_ = false;
  Access source_, weights_, result_;
  bool has_weights_ = false;
  std::optional<Padded> padded_;
  const BufferNode* padded_buffer_ = nullptr;
  Epilogue epilogue_;
  std::vector<Access> operands_;  // of binary post-ops
  // Which iterators are what.
  struct Slide {
    size_t pixel = 0;
    int window = -1;  // -1: none
  };
  std::vector<size_t> batch_, rows_, columns_, inner_;
  std::vector<Slide> slides_;
};

bool Reduction::is_f32() const {
  return std::ranges::all_of(program_->params, [](const Param& p) { return p.buffer->dtype == kF32; });
}

Result<Reduction> Reduction::read(const Func& program, const std::vector<Step>& steps) {
  Reduction made(program);
  if (!made.is_f32()) return declined("not all of it is f32");
  const auto reduces = [](const Step& s) { return s.reduces(); };
  const auto at = std::ranges::find_if(steps, reduces);
  if (at == steps.end()) return declined("nothing is summed");
  if (std::ranges::count_if(steps, reduces) > 1) return declined("there are several reductions");
  made.iterators_ = at->iterators;
  FETTLE_TRY_VOID(made.read_operands(steps, *at));
  FETTLE_TRY_VOID(made.read_rest(steps, static_cast<size_t>(at - steps.begin())));
  FETTLE_TRY_VOID(made.classify());
  return made;
}

Result<> Reduction::read_operands(const std::vector<Step>& steps, const Step& step) {
  const auto* update = step.store->value.as<BinaryNode>();
  const auto* start = step.initial.as<FloatImmNode>();
  if (!update || !start) return declined("it is no sum of products and no maximum");
  is_maximum_ = is_maximum(update->op);
  if (!is_maximum_ && update->op != BinaryOp::kAdd) return declined("it is no sum of products and no maximum");
  if (is_maximum_ ? start->value != -std::numeric_limits<double>::infinity() : start->value != 0)
    return declined("the reduction begins with another value");
  const auto is_state = [&](const Expr& e) {
    const auto* load = e.as<LoadNode>();
    return load && load->buffer.get() == step.store->buffer.get() &&
           structural_equal(load->indices, step.store->indices);
  };
  if (!is_state(update->a) && !is_state(update->b)) return declined("the reduction is of another kind");
  const Expr term = is_state(update->a) ? update->b : update->a;
  const auto* product = term.as<BinaryNode>();
  has_weights_ = !is_maximum_;
  if (has_weights_ && (!product || product->op != BinaryOp::kMul)) return declined("it is no sum of products");
  const auto* a = (has_weights_ ? product->a : term).as<LoadNode>();
  const auto* b = has_weights_ ? product->b.as<LoadNode>() : nullptr;
  if (!a || (has_weights_ && !b)) return declined("an operand is computed");
  const auto is_padding = [&](const LoadNode* load) {
    const Step* writer = load ? writer_of(steps, load->buffer.get()) : nullptr;
    return writer && read_padding(*writer).has_value();
  };
  if (is_padding(b)) std::swap(a, b);
  if (is_padding(a)) {
    padded_ = read_padding(*writer_of(steps, a->buffer.get()));
    padded_buffer_ = a->buffer.get();
    if (is_maximum_ ? padded_->value != -std::numeric_limits<double>::infinity() : padded_->value != 0)
      return declined("it is padded with another value");
  }
  FETTLE_TRY(source_, access_of(program_, a->buffer.get(), a->indices, iterators_));
  if (b) {
    FETTLE_TRY(weights_, access_of(program_, b->buffer.get(), b->indices, iterators_));
    if (weights_.param < 0 || !is_constant_index(weights_)) return declined("an operand is computed");
  }
  if (padded_) {
    source_.param = param_of(program_, padded_->image);
  } else if (!is_constant_index(source_)) {
    return declined("it reads a part of its operand");
  }
  if (source_.param < 0) return declined("an operand is computed");
  FETTLE_TRY(result_, access_of(program_, step.store->buffer.get(), step.store->indices, iterators_));
  return {};
}

Result<> Reduction::read_rest(const std::vector<Step>& steps, size_t at) {
  // What comes before is the padding, or nothing.
  for (size_t i = 0; i < at; ++i)
    if (steps[i].store->buffer.get() != padded_buffer_) return declined("an operand is computed");
  const StoreNode& store = *steps[at].store;
  FETTLE_TRY(epilogue_, read_epilogue(program_, steps, at + 1, store.buffer.get()));
  // The result lies where the last step writes it.
  std::vector<Iterator> dimensions;
  const auto shape = shape_of(*store.buffer);
  for (size_t d = 0; d < store.indices.size(); ++d) {
    const auto same = [&](const Iterator& i) { return i.var.get() == store.indices[d].get(); };
    if (!is_zero(store.indices[d]) && std::ranges::none_of(iterators_, same))
      return declined("its result is written in parts");
    dimensions.push_back({epilogue_.dimensions[d], (*shape)[d], false});
  }
  // Strides of dimensions become those of iterators.
  const auto of_iterators = [&](const Access& access) {
    Numbers strides(iterators_.size(), 0);
    for (size_t d = 0; d < dimensions.size(); ++d)
      for (size_t i = 0; i < iterators_.size(); ++i)
        if (iterators_[i].var.get() == store.indices[d].get()) strides[i] = access.strides[d];
    return strides;
  };
  const std::vector<Expr> all(epilogue_.dimensions.begin(), epilogue_.dimensions.end());
  FETTLE_TRY(Access result, access_of(program_, epilogue_.result, all, dimensions));
  result.strides = of_iterators(result);
  for (size_t i = 0; i < iterators_.size(); ++i)
    if (!iterators_[i].reduces && iterators_[i].extent > 1 && result.strides[i] == 0)
      return declined("its result is written in parts");
  result_ = std::move(result);
  for (const EpilogueOp& op : epilogue_.ops) {
    if (!op.operand) {
      operands_.emplace_back();
      continue;
    }
    FETTLE_TRY(Access operand, access_of(program_, op.operand->buffer.get(), op.operand->indices, dimensions));
    if (operand.param < 0 || !is_constant_index(operand)) return declined("what is added to the result is computed");
    operand.strides = of_iterators(operand);
    operands_.push_back(std::move(operand));
  }
  return {};
}

Result<> Reduction::classify() {
  if (has_weights_) {
    // Constant weights are packed; else the operand whose elements lie as the result's does.
    const auto constant = [&](const Access& a) {
      return program_->params[static_cast<size_t>(a.param)].kind == ParamKind::kConstant;
    };
    const auto fills_rows = [&](const Access& a) {
      for (size_t i = 0; i < iterators_.size(); ++i)
        if (iterators_[i].extent > 1 && result_.strides[i] == 1) return a.touches(i);
      return false;
    };
    const bool swaps =
        !padded_ &&
        (constant(source_) != constant(weights_) ? constant(source_) : !fills_rows(weights_) && fills_rows(source_));
    if (swaps) std::swap(source_, weights_);
  }
  std::vector<size_t> reduced;
  for (size_t i = 0; i < iterators_.size(); ++i) {
    if (iterators_[i].extent == 1) continue;
    const bool in_source = source_.touches(i), in_weights = has_weights_ && weights_.touches(i);
    if (iterators_[i].reduces) {
      if (!in_source || (has_weights_ && !in_weights)) return declined("an operand does not depend on the sum's index");
      reduced.push_back(i);
    } else if (in_source && in_weights) {
      batch_.push_back(i);
    } else if (in_source) {
      rows_.push_back(i);
    } else if (in_weights) {
      columns_.push_back(i);
    } else {
      return declined("its result repeats itself");
    }
  }
  // Windows: pixels and taps that share a dimension of the source.
  for (const size_t r : reduced) {
    int dimension = -1;
    size_t pixel = iterators_.size();
    for (size_t d = 0; d < source_.indices.size(); ++d) {
      if (source_.indices[d].coefficients[r] == 0) continue;
      if (dimension >= 0) return declined("a tap moves along two dimensions");
      dimension = static_cast<int>(d);
      for (const size_t p : rows_)
        if (source_.indices[d].coefficients[p] != 0) pixel = p;
    }
    if (pixel == iterators_.size()) {
      inner_.push_back(r);
      continue;
    }
    if (std::ranges::any_of(slides_, [&](const Slide& s) { return s.pixel == pixel; }))
      return declined("two taps move along one dimension");
    slides_.push_back({pixel, static_cast<int>(r)});
  }
  return {};
}

std::vector<const Access*> Reduction::tensors() const {
  std::vector<const Access*> all = {&source_, &result_};
  if (has_weights_) all.push_back(&weights_);
  for (const Access& operand : operands_)
    if (operand.param >= 0) all.push_back(&operand);
  return all;
}

/// Outermost first. Iterators that follow one another in every tensor are one.
std::vector<Group> Reduction::groups(std::vector<size_t> iterators) const {
  const auto all = tensors();
  const auto far = [&](size_t i) {
    return std::pair(result_.strides[i], std::pair(source_.strides[i], has_weights_ ? weights_.strides[i] : 0));
  };
  std::ranges::sort(iterators, std::greater<>(), far);
  std::vector<Group> made;
  for (const size_t i : iterators) {
    Group group{iterators_[i].extent, {}};
    for (const Access* tensor : all) group.strides.push_back(tensor->strides[i]);
    if (!made.empty()) {
      Group& outer = made.back();
      bool follows = true;
      for (size_t t = 0; t < all.size(); ++t) follows = follows && outer.strides[t] == group.strides[t] * group.extent;
      if (follows) {
        outer.extent *= group.extent;
        outer.strides = group.strides;
        continue;
      }
    }
    made.push_back(std::move(group));
  }
  return made;
}

MatchedTensor Reduction::tensor(int32_t argument, size_t number, const std::vector<const Group*>& dimensions) const {
  MatchedTensor made{argument, tensors()[number]->param, {}, {}};
  int64_t whole = 1;
  for (const Group* group : dimensions) {
    const int64_t stride = group && number < group->strides.size() ? group->strides[number] : 0;
    made.dims.push_back(stride == 0 ? 1 : group->extent);
    made.strides.push_back(stride);
    if (stride != 0) whole = std::max(whole, stride * group->extent);
  }
  // Of dimensions of one element any stride will do, but none is 0.
  for (int64_t& stride : made.strides)
    if (stride == 0) stride = whole;
  return made;
}

/// The first, an addition of a vector along the channels, is a bias.
Result<> Reduction::add_ops(Matched& matched, const std::vector<const Group*>& dimensions, size_t channels) const {
  size_t number = has_weights_ ? 3 : 2;
  for (size_t i = 0; i < epilogue_.ops.size(); ++i) {
    rt::OnednnOp op = epilogue_.ops[i].op;
    if (op.is_binary == 1) {
      MatchedTensor operand =
          tensor(rt::onednn::operand_of(static_cast<int32_t>(matched.ops.size())), number++, dimensions);
      const int64_t count = std::accumulate(operand.dims.begin(), operand.dims.end(), int64_t{1}, std::multiplies<>());
      const bool is_bias = has_weights_ && i == 0 && op.algorithm == rt::onednn::kAdd &&
                           count == operand.dims[channels] && count > 1 && operand.strides[channels] == 1;
      if (is_bias) {
        operand.argument = rt::onednn::kBias;
        if (matched.kind == rt::kOnednnConvolution) operand.dims = {count}, operand.strides = {1};
        matched.tensors.push_back(std::move(operand));
        continue;
      }
      matched.tensors.push_back(std::move(operand));
    }
    matched.ops.push_back(op);
  }
  if (matched.tensors.size() > static_cast<size_t>(rt::kOnednnMaxTensors)) return declined("it has too many operands");
  return {};
}

Result<Matched> Reduction::matmul() {
  std::vector<Group> batch = groups(batch_), rows = groups(rows_), columns = groups(columns_), inner = groups(inner_);
  if (columns.size() > 1 || inner.size() > 1) return declined("a product's dimensions are scattered in memory");
  if (inner.empty()) return declined("nothing is summed");
  // All rows but the innermost are one more batch, of which the weights know nothing.
  std::vector<const Group*> outer;
  for (const Group& group : batch) outer.push_back(&group);
  for (size_t i = 0; i + 1 < rows.size(); ++i) outer.push_back(&rows[i]);
  if (outer.size() + 2 > static_cast<size_t>(rt::kOnednnMaxRank)) return declined("a product has too many dimensions");
  const Group* row = rows.empty() ? nullptr : &rows.back();
  const Group* column = columns.empty() ? nullptr : &columns.front();
  const auto with = [&](const Group* a, const Group* b) {
    std::vector<const Group*> list = outer;
    list.push_back(a);
    list.push_back(b);
    return list;
  };
  Matched matched;
  matched.kind = rt::kOnednnMatmul;
  matched.tensors.push_back(tensor(rt::onednn::kSource, 0, with(row, &inner.front())));
  matched.tensors.push_back(tensor(rt::onednn::kWeights, 2, with(&inner.front(), column)));
  const auto result = with(row, column);
  matched.tensors.push_back(tensor(rt::onednn::kDestination, 1, result));
  FETTLE_TRY_VOID(add_ops(matched, result, result.size() - 1));
  return matched;
}

Result<Matched> Reduction::windows() {
  // Rows without a window are images, or pixels under a window of one tap.
  std::vector<Slide> slides = slides_;
  std::vector<size_t> channels;  // of a pooling
  for (const size_t i : rows_) {
    if (std::ranges::any_of(slides_, [&](const Slide& s) { return s.pixel == i; })) continue;
    if (!has_weights_ && source_.strides[i] == 1)
      channels.push_back(i);
    else
      slides.push_back({i, -1});
  }
  std::ranges::sort(slides, std::greater<>(), [&](const Slide& s) { return source_.strides[s.pixel]; });
  std::vector<size_t> images;
  if (slides.size() > 2 && slides.front().window < 0) {
    images.push_back(slides.front().pixel);
    slides.erase(slides.begin());
  }
  if (slides.empty() || slides.size() > 3) return declined("a window slides along too many dimensions");

  const std::vector<Group> image = groups(images), sets = groups(batch_), outs = groups(columns_), ins = groups(inner_),
                           planes = groups(channels);
  if (image.size() > 1 || sets.size() > 1 || outs.size() > 1 || ins.size() > 1)
    return declined("a convolution's channels are scattered in memory");
  if (!has_weights_ && (!ins.empty() || planes.size() != 1)) return declined("a pooling's channels are not innermost");
  const Group* set = sets.empty() ? nullptr : &sets.front();
  const Group* out = outs.empty() ? nullptr : &outs.front();
  const Group* in = ins.empty() ? nullptr : &ins.front();
  Matched matched;
  matched.kind = has_weights_ ? rt::kOnednnConvolution : rt::kOnednnPooling;
  matched.algorithm = has_weights_ ? rt::onednn::kConvolutionDirect : rt::onednn::kMaxPooling;

  // The channels of source and result: groups times those of each.
  constexpr size_t kIn = 0, kOut = 1, kWeights = 2;
  const auto channels_of = [&](const Group* own, size_t t) -> std::optional<Group> {
    if (!has_weights_) return planes.front();
    Group made{1, std::vector<int64_t>(tensors().size(), 0)};
    if (own) made = *own;
    if (!set) return made;
    if (own && set->strides[t] != own->strides[t] * own->extent) return std::nullopt;
    if (!own) made.strides = set->strides;
    // What else reads the result by its channels goes on from group to group, too.
    for (size_t k = kWeights + 1; own && t == kOut && k < made.strides.size(); ++k)
      if (set->strides[k] != own->strides[k] * own->extent) return std::nullopt;
    made.extent *= set->extent;
    return made;
  };
  const auto in_channels = channels_of(in, kIn), out_channels = channels_of(out, kOut);
  if (!in_channels || !out_channels) return declined("a convolution's groups are scattered in memory");

  std::vector<Group> pixels, taps, image_dims;
  for (const Slide& slide : slides) {
    int dimension = -1;
    for (size_t d = 0; d < source_.indices.size(); ++d)
      if (source_.indices[d].coefficients[slide.pixel] != 0) {
        if (dimension >= 0) return declined("pixels move along two dimensions");
        dimension = static_cast<int>(d);
      }
    const auto d = static_cast<size_t>(dimension);
    const Numbers& coefficients = source_.indices[d].coefficients;
    for (size_t i = 0; i < coefficients.size(); ++i)
      if (coefficients[i] != 0 && iterators_[i].extent > 1 && i != slide.pixel && static_cast<int>(i) != slide.window)
        return declined("pixels and channels share a dimension");
    MatchedWindow window;
    const int64_t count = iterators_[slide.pixel].extent;
    window.stride = coefficients[slide.pixel];
    if (slide.window >= 0) {
      window.window = iterators_[static_cast<size_t>(slide.window)].extent;
      window.dilation = coefficients[static_cast<size_t>(slide.window)];
    }
    int64_t extent = source_.shape[d], stride = source_.memory[d];
    if (padded_) {
      const size_t of_image =
          static_cast<size_t>(std::ranges::find(padded_->dimension, dimension) - padded_->dimension.begin());
      window.padding_low = padded_->low[of_image];
      extent = (*shape_of(*padded_->image))[of_image];
      stride = (*strides_of(*padded_->image))[of_image];
    }
    if (window.stride < 1 || window.dilation < 1) return declined("a window moves backwards");
    const int64_t needed = (count - 1) * window.stride + (window.window - 1) * window.dilation + 1;
    // What is left over at the end, less than a step of the window, oneDNN passes over, too.
    extent = std::min(extent, needed - window.padding_low + window.stride - 1);
    if (extent < 1) return declined("a window sees nothing of the image");
    window.padding_high = std::max<int64_t>(0, needed - window.padding_low - extent);
    matched.windows.push_back(window);

    Group pixel{count, {}};
    for (const Access* tensor : tensors()) pixel.strides.push_back(tensor->strides[slide.pixel]);
    Group of_image = pixel, tap = pixel;
    of_image.extent = extent;
    of_image.strides[kIn] = stride;
    tap.extent = window.window;
    if (has_weights_)
      tap.strides[kWeights] = slide.window < 0 ? 0 : weights_.strides[static_cast<size_t>(slide.window)];
    pixels.push_back(std::move(pixel));
    image_dims.push_back(std::move(of_image));
    taps.push_back(std::move(tap));
  }
  // With padding, strides of what is no window are those of the image, too.
  Group source_channels = *in_channels, source_image = image.empty() ? Group{} : image.front();
  if (padded_) {
    const auto memory = *strides_of(*padded_->image);
    const auto of_image = [&](int64_t stride, int64_t extent) -> std::optional<int64_t> {
      if (stride == 0) return 0;
      for (size_t d = 0; d < source_.memory.size(); ++d)
        if (source_.memory[d] == stride && source_.shape[d] >= extent) {
          const auto at = static_cast<size_t>(std::ranges::find(padded_->dimension, static_cast<int>(d)) -
                                              padded_->dimension.begin());
          if (padded_->low[at] != 0) return std::nullopt;
          return memory[at];
        }
      return std::nullopt;
    };
    for (Group* group : {&source_channels, &source_image}) {
      if (group->strides.empty()) continue;
      const auto moved = of_image(group->strides[kIn], group->extent);
      if (!moved) return declined("channels are padded");
      group->strides[kIn] = *moved;
    }
  }

  const auto listed = [](std::vector<const Group*> list, const std::vector<Group>& more) {
    for (const Group& group : more) list.push_back(&group);
    return list;
  };
  const Group* images_or_one = image.empty() ? nullptr : &image.front();
  const Group* source_images = image.empty() ? nullptr : &source_image;
  const auto result = listed({images_or_one, &*out_channels}, pixels);
  matched.tensors.push_back(tensor(rt::onednn::kSource, kIn, listed({source_images, &source_channels}, image_dims)));
  if (has_weights_) {
    std::vector<const Group*> order;
    if (set) order.push_back(set);
    order.push_back(out);
    order.push_back(in);
    matched.tensors.push_back(tensor(rt::onednn::kWeights, kWeights, listed(order, taps)));
  }
  matched.tensors.push_back(tensor(rt::onednn::kDestination, kOut, result));
  FETTLE_TRY_VOID(add_ops(matched, result, 1));
  return matched;
}

Result<Matched> Reduction::match() {
  if (slides_.empty() && has_weights_ && !padded_) {
    const size_t n_rows = groups(rows_).size();
    const bool strided = n_rows > 1 && batch_.empty();
    if (!strided) return matmul();
  }
  if (!slides_.empty() || has_weights_) return windows();
  return declined("it is no pooling");
}

}  // namespace

const MatchedTensor* Matched::find(int32_t argument) const {
  for (const MatchedTensor& tensor : tensors)
    if (tensor.argument == argument) return &tensor;
  return nullptr;
}

Result<Matched> match(const Func& program) {
  FETTLE_TRY(const std::vector<Step> steps, read_steps(program));
  if (auto rows = match_softmax(program, steps)) return std::move(*rows);
  if (auto rows = match_layer_norm(program, steps)) return std::move(*rows);
  FETTLE_TRY(Reduction reduction, Reduction::read(program, steps));
  return reduction.match();
}

}  // namespace fettle::onednn
