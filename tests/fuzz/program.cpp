// Programs of random stages.
#include "tests/fuzz/program_maker.h"

namespace fettle::fuzz {

Program Maker::make() {
  pick_type();
  const bool symbolic = chance(shares_ ? 40 : 10);
  if (symbolic) {
    n_ = make_var("n");
    n_value_ = between(1, 12);
  }
  const int rank = between(1, 3);
  std::vector<int64_t> shape;
  for (int d = 0; d < rank; ++d) shape.push_back(symbolic && d == 0 ? -1 : extent(rank == 1 ? 40 : rank == 2 ? 20 : 9));
  made_.push_back(input(shape));
  const int stages = between(1, 4);
  for (int i = 0; i < stages; ++i) stage();
  if (adds_bias_) {
    reduction_stage();
    bias_stage();
  }
  if (orders_) order_stage();
  if (shares_) shared_sum_stage();
  if (steps_) steps_stage();
  if (scatters_) scatter_stage();
  return finish();
}

void Maker::pick_type() {
  const int k = between(1, 100);
  type_ = k <= 70   ? kF32
          : k <= 78 ? kF64
          : k <= 86 ? kI32
          : k <= 89 ? kI64
          : k <= 92 ? kI8
          : k <= 94 ? kU8
          : k <= 97 ? kF16
                    : kBF16;
  // Integers wrap, which any order does alike.
  limit_ = type_ == kF32 ? 0x1p22 : type_ == kF64 ? 0x1p40 : type_ == kF16 ? 1024 : type_ == kBF16 ? 128 : INFINITY;
}

void Maker::add_block(const std::string& name, const std::vector<Iter>& list, const Buffer& out,
                      const std::vector<Expr>& at, const Expr& value, const Expr& init, const Expr& condition,
                      const Named& named) {
  auto block = make_ref<BlockNode>();
  block->name = name;
  std::vector<Var> loops;
  for (const Iter& i : list) {
    loops.push_back(make_var(i.var->name.substr(1)));
    block->iters.push_back({i.var, size_of(i.extent), i.kind, Expr(loops.back())});
  }
  block->body = store(out, at, value);
  if (condition) {
    const Stmt whole = block->body;
    block->body = if_then(condition, whole);
  }
  if (named.var) {
    const Stmt whole = block->body;
    block->body = let(named.var, named.value, whole);
  }
  if (init) block->init = store(out, at, init);
  RegionUnion reads, writes;
  for (RegionUnion* regions : {&reads, &writes}) regions->bind(block->body);
  writes.add(out, at);
  for (const Expr& made : {named.value, value, init}) {
    if (!made) continue;
    walk(made, [&](const Expr& e) {
      if (const auto* one = e.as<LoadNode>(); one && (!init || one->buffer != out))
        reads.add(one->buffer, one->indices);
      return true;
    });
  }
  block->reads = reads.take();
  block->writes = writes.take();
  Stmt nest = Stmt(block);
  for (size_t d = list.size(); d-- > 0;) nest = make_for(loops[d], Expr(0), size_of(list[d].extent), nest);
  nests_.push_back(nest);
}

void Maker::define(const std::vector<Iter>& list, const std::vector<int64_t>& extents, const std::vector<Expr>& at,
                   const Expr& value, double bound, const Expr& init) {
  const std::string name = fresh_name("T");
  const Buffer out = make_buffer(name, shape_of(extents), type_);
  add_block(name, list, out, at, value, init);
  internal_.push_back(out);
  made_.push_back({out, extents, bound});
}

void Maker::stage() {
  const int before = static_cast<int>(made_.size());
  for (int tries = 0; tries < 20 && static_cast<int>(made_.size()) == before; ++tries) {
    switch (between(0, 17)) {
      case 0:
      case 1:
        elementwise_stage();
        break;
      case 2:
        broadcast_stage();
        break;
      case 3:
        transpose_stage();
        break;
      case 4:
        reshape_stage();
        break;
      case 5:
        stencil_stage();
        break;
      case 6:
        padding_stage();
        break;
      case 7:
      case 8:
        reduction_stage();
        break;
      case 9:
      case 10:
      case 11:
        product_stage();
        break;
      case 12:
        convolution_stage();
        break;
      case 13:
        gather_stage();
        break;
      case 14:
        scan_stage();
        break;
      case 15:
        triangle_stage();
        break;
      case 16:
        parts_stage();
        break;
      default:
        in_place_stage();
        break;
    }
  }
  if (static_cast<int>(made_.size()) > before) return;
  const Tensor t = made_.back();  // all have been tried in vain: a copy
  const auto list = iters(t.extents);
  define(list, t.extents, vars(list), load(t.buffer, vars(list)), t.bound);
}

Program Maker::finish() {
  // What nobody reads is an output; some that are read, too.
  std::set<const BufferNode*> used;
  for (const Stmt& nest : nests_) {
    walk(nest, [&](const Stmt& s) {
      const auto* block = s.as<BlockNode>();
      if (block)
        for (const Region& region : block->reads) used.insert(region.buffer.get());
      return true;
    });
  }
  auto root = make_ref<BlockNode>();
  root->name = "root";
  std::vector<Param> outputs;
  for (const Buffer& buffer : internal_) {
    if (buffer == internal_.back() || !used.count(buffer.get()) || chance(10))
      outputs.push_back({buffer, ParamKind::kOutput, pads_});
    else
      root->allocations.push_back(buffer);
  }
  root->body = seq(nests_);
  auto func = make_ref<FuncNode>();
  func->name = "main";
  for (const Param& param : params_)
    if (used.count(param.buffer.get())) func->params.push_back(param);
  for (const Param& param : outputs) func->params.push_back(param);
  Program program;
  if (n_) {
    func->int_params.push_back({n_, 1, 64, 1});
    program.ints.push_back(n_value_);
  }
  func->body = Stmt(root);
  program.func = Func(func);
  const auto fine = check_well_formed(program.func);
  FETTLE_CHECK_MSG(fine.has_value(), (fine ? "" : fine.error().to_string()) + "\n" + to_text(program.func));
  return program;
}

Program random_program(uint64_t seed) { return Maker(seed).make(); }

}  // namespace fettle::fuzz
