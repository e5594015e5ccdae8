// Pointers. An index is a polynomial (index_form.h). In a loop over k it falls apart into
//   slope*k + fixed + moving + constant
// where slope and fixed do not change in the loop. One pointer is carried for each distinct (buffer, slope, fixed) and
// bumped by the slope; constants become displacements. Rows a run-time stride apart (A[r*lda + k], r = 0…13) would need
// a pointer each; they form a family, in which x86's base + index*{1,2,4,8} reaches most rows:
//   row  0  1  2  3   4  5  6  7  8  9  10   11   12   13        L = lda in bytes
//   base 0  0  0  0   0  5  5  5  0  5  0    5    0    5
//   plus -  L  2L 3L  4L -  L  2L 8L 4L 2·5L 2·3L 4·3L 8L
// so 14 rows take two pointers and three registers (L, 3L, 5L) that stay as they are.
#include <bit>
#include <limits>
#include <numeric>

#include "codegen/llvm/function_emitter.h"
#include "ir/visit.h"

namespace fettle::llvm_backend {

using namespace llvm;

namespace {

constexpr int kNotYet = std::numeric_limits<int>::max();

struct RowPlace {
  int base, multiple;
  unsigned scale;  // row = base + multiple*scale
};
constexpr RowPlace kRowPlaces[14] = {{0, 0, 0}, {0, 1, 1}, {0, 1, 2}, {0, 3, 1}, {0, 1, 4}, {5, 0, 0}, {5, 1, 1},
                                     {5, 1, 2}, {0, 1, 8}, {5, 1, 4}, {0, 5, 2}, {5, 3, 2}, {0, 3, 4}, {5, 1, 8}};

}  // namespace

int FunctionEmitter::level_of_indeterminate(int indeterminate) {
  const Expr& e = forms_.expression(indeterminate);
  if (reads_memory(e)) return kNotYet;
  int level = 0;
  for (const Var& var : collect_vars(e)) {
    const auto found = vars_.find(var.get());
    if (found == vars_.end()) return kNotYet;
    level = std::max(level, vb_.level_of(found->second));
  }
  return level;
}

int FunctionEmitter::level_of(const Monomial& monomial) {
  int level = 0;
  for (const int indeterminate : monomial) level = std::max(level, level_of_indeterminate(indeterminate));
  return level;
}

void FunctionEmitter::split_form(const IndexForm& form, const Loop& loop, bool carried, IndexForm& slope,
                                 IndexForm& fixed, IndexForm& moving) {
  for (const auto& [monomial, coefficient] : form.terms) {
    if (level_of(monomial) < loop.level || loop.level == 0) {
      fixed.terms.emplace(monomial, coefficient);
      continue;
    }
    Monomial rest;
    int times = 0;
    for (const int indeterminate : monomial) {
      if (loop.var && forms_.expression(indeterminate).get() == loop.var)
        ++times;
      else
        rest.push_back(indeterminate);
    }
    if (carried && times == 1 && !loop.has_calls && level_of(rest) < loop.level)
      slope.add_term(rest, coefficient);
    else
      moving.terms.emplace(monomial, coefficient);
  }
}

/// Σ coefficient · element_bytes · Π indeterminates, each product where it is first known.
Value* FunctionEmitter::bytes_of(const IndexForm& form, int64_t element_bytes) {
  Type* i64 = Type::getInt64Ty(vb_.context());
  const auto scaled = [&](int64_t x) {
    return ConstantInt::get(i64, static_cast<uint64_t>(x) * static_cast<uint64_t>(element_bytes));
  };
  Value* sum = nullptr;
  for (const auto& [monomial, coefficient] : form.terms) {
    Value* product = nullptr;
    for (const int indeterminate : monomial) {
      Value* factor = emit(forms_.expression(indeterminate));
      product = product ? vb_.binary(Instruction::Mul, product, factor) : factor;
    }
    auto* factor = scaled(coefficient);
    if (!factor->isOneValue()) product = vb_.binary(Instruction::Mul, product, factor);
    sum = sum ? vb_.binary(Instruction::Add, sum, product) : product;
  }
  if (form.constant != 0 || !sum)
    sum = sum ? vb_.binary(Instruction::Add, sum, scaled(form.constant)) : scaled(form.constant);
  return sum;
}

/// base + form, added up from the outermost loop inwards, so that each part stays where it is known. The constant comes
/// last, and stays at the access, where it costs nothing.
Value* FunctionEmitter::pointer_at(Value* base, const IndexForm& form, int64_t element_bytes) {
  std::map<int, IndexForm> by_level;
  for (const auto& [monomial, coefficient] : form.terms) by_level[level_of(monomial)].add_term(monomial, coefficient);
  Value* pointer = base;
  for (const auto& [level, part] : by_level) pointer = vb_.byte_offset(pointer, bytes_of(part, element_bytes));
  if (form.constant != 0) {
    IndexForm constant;
    constant.constant = form.constant;
    pointer = stay_offset(pointer, bytes_of(constant, element_bytes));
  }
  return pointer;
}

/// pointer + bytes, here and in no outer loop: it becomes part of the access's address.
Value* FunctionEmitter::stay_offset(Value* pointer, Value* bytes) {
  return vb_.read(GetElementPtrInst::Create(Type::getInt8Ty(vb_.context()), pointer, {bytes}), 0);
}

/// Looks at every access in the body of a loop (or of the function), but not in loops below, and finds the families.
void FunctionEmitter::plan_rows(Loop& loop, const Stmt& body) {
  std::map<std::pair<const BufferNode*, IndexForm>, std::set<IndexForm>> groups;
  const auto note = [&](const BufferNode* buffer, const std::vector<Expr>& indices) {
    if (indices.size() != 1 || registers_.has(buffer)) return;
    LaneIndex lanes;
    if (!as_lane_index(indices[0], lanes)) return;
    IndexForm slope, fixed, moving;
    split_form(forms_.form(lanes.base), loop, true, slope, fixed, moving);
    groups[{buffer, slope}].insert(fixed);
  };
  walk(
      body,
      [&](const Stmt& s) {
        if (const auto* store = s.as<StoreNode>()) note(store->buffer.get(), store->indices);
        return s.kind() != StmtKind::kFor && s.kind() != StmtKind::kWhile;
      },
      [&](const Expr& e) {
        if (const auto* load = e.as<LoadNode>()) note(load->buffer.get(), load->indices);
        return true;
      });
  for (const auto& [key, forms] : groups) {
    if (forms.size() < 2) continue;
    // The stride of the family: what most members differ in.
    std::map<Monomial, std::set<int64_t>> multiples;
    for (const IndexForm& form : forms)
      for (const auto& term : form.terms) multiples[term.first];
    for (auto& [monomial, values] : multiples) {
      for (const IndexForm& form : forms) {
        const auto term = form.terms.find(monomial);
        values.insert(term == form.terms.end() ? 0 : term->second);
      }
    }
    const Monomial* stride = nullptr;
    size_t most = 1;
    for (const auto& [monomial, values] : multiples) {
      if (values.size() <= most) continue;
      most = values.size();
      stride = &monomial;
    }
    if (!stride) continue;
    std::map<RowKey, std::set<int64_t>> rows;
    for (IndexForm form : forms) {
      int64_t multiple = 0;
      if (const auto term = form.terms.find(*stride); term != form.terms.end()) {
        multiple = term->second;
        form.terms.erase(term);
      }
      rows[{key.first, key.second, form}].insert(multiple);
    }
    for (const auto& [row_key, values] : rows) {
      if (values.size() < 2) continue;
      int64_t step = 0;
      for (const int64_t value : values) step = std::gcd(step, value - *values.begin());
      loop.families[row_key] = {*stride, *values.begin(), step};
    }
    loop.row_strides[key].insert(*stride);
  }
}

/// The pointer to buffer[start + slope*(variable)], carried by the loop if slope is not zero.
Value* FunctionEmitter::start_pointer(Loop& loop, const BufferNode* buffer, const IndexForm& slope,
                                      const IndexForm& start) {
  Value* base = memory(buffer)->pointer;
  const int64_t element_bytes = buffer->dtype.element_bytes();
  if (slope == IndexForm{}) return pointer_at(base, start, element_bytes);
  const PointerKey key{buffer, slope, start};
  if (const auto found = loop.pointers.find(key); found != loop.pointers.end()) return found->second.phi;
  IndexForm initial = start;
  for (const auto& [monomial, coefficient] : slope.terms) {
    for (const auto& [other, times] : loop.first.terms) {
      Monomial both;
      std::merge(monomial.begin(), monomial.end(), other.begin(), other.end(), std::back_inserter(both));
      initial.add_term(both, coefficient * times);
    }
    initial.add_term(monomial, coefficient * loop.first.constant);
  }
  initial.add(loop.first, slope.constant);
  PointerPhi carried;
  carried.number = loop.pointers.size();
  Value* before = vb_.at_level(loop.level - 1, [&] { return pointer_at(base, initial, element_bytes); });
  carried.bump_bytes = vb_.at_level(loop.level - 1, [&] { return bytes_of(slope, element_bytes); });
  carried.phi = PHINode::Create(PointerType::get(vb_.context(), 0), 2);
  carried.phi->insertBefore(loop.header->begin());
  carried.phi->addIncoming(before, loop.before);
  vb_.made_at(carried.phi, loop.level);
  loop.pointers.emplace(key, carried);
  return carried.phi;
}

Value* FunctionEmitter::address(const BufferNode* buffer, const Expr& index) {
  Loop& loop = loops_.back();
  const int64_t element_bytes = buffer->dtype.element_bytes();
  const IndexForm form = forms_.form(index);
  IndexForm slope, fixed, moving;
  // Memory acquired in the loop is another block in each iteration: no pointer to it goes from one to the next.
  const bool carried = vb_.level_of(memory(buffer)->pointer) < loop.level;
  split_form(form, loop, carried, slope, fixed, moving);

  Value* pointer = nullptr;
  if (const auto strides = loop.row_strides.find({buffer, slope}); strides != loop.row_strides.end()) {
    for (const Monomial& stride : strides->second) {
      IndexForm rest = fixed;
      int64_t multiple = 0;
      if (const auto term = rest.terms.find(stride); term != rest.terms.end()) {
        multiple = term->second;
        rest.terms.erase(term);
      }
      const auto found = loop.families.find({buffer, slope, rest});
      if (found == loop.families.end()) continue;
      const RowFamily& family = found->second;
      const int64_t row = (multiple - family.first) / family.step;
      if (row < 0 || multiple != family.first + row * family.step) break;
      const RowPlace place = kRowPlaces[row % 14];
      rest.add_term(stride, family.first + (row - row % 14 + place.base) * family.step);
      pointer = start_pointer(loop, buffer, slope, rest);
      if (place.multiple != 0) {
        IndexForm unit;
        unit.add_term(stride, family.step * place.multiple);
        Value* bytes = bytes_of(unit, element_bytes);
        if (place.scale != 1) {
          auto* shift = ConstantInt::get(bytes->getType(), static_cast<uint64_t>(std::countr_zero(place.scale)));
          bytes = vb_.read(BinaryOperator::CreateShl(bytes, shift), 0);
        }
        pointer = stay_offset(pointer, bytes);
      }
      break;
    }
  }
  if (!pointer) pointer = start_pointer(loop, buffer, slope, fixed);
  moving.constant = form.constant;
  return pointer_at(pointer, moving, element_bytes);
}

}  // namespace fettle::llvm_backend
