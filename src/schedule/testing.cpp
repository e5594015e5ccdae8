#include "schedule/testing.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

namespace fettle::testing {

std::string error_text(const Diagnostic& diagnostic) { return explain(diagnostic); }

TestSchedule::TestSchedule(const Func& func, uint64_t seed) : Schedule(func, seed), original(func) {}

BlockRef TestSchedule::block(const std::string& name) {
  auto ref = get_block(*this, {name});
  FETTLE_CHECK_MSG(ref.has_value(), "no block " + name + " in\n" + to_text(func()));
  return *ref;
}

LoopRef TestSchedule::loop(const std::string& name) {
  const BlockNode* beneath = nullptr;
  walk(func()->body, [&](const Stmt& s) {
    if (beneath) return false;
    if (const auto* candidate = s.as<BlockNode>())
      for (const ForNode* around : loops_around(func(), candidate))
        if (around->var->name == name) beneath = candidate;
    return true;
  });
  FETTLE_CHECK_MSG(beneath, "no loop " + name + " in\n" + to_text(func()));
  const auto loops = get_loops(*this, {block(beneath->name)});
  for (const LoopRef& ref : *loops)
    if (loop_var(ref).value()->name == name) return ref;
  FETTLE_UNREACHABLE();
}

std::vector<LoopRef> TestSchedule::loops(BlockRef block) {
  auto refs = get_loops(*this, {block});
  FETTLE_CHECK_MSG(refs.has_value(), error_text(refs.error()));
  return *refs;
}

TestSchedule schedule_from(const std::string& text, uint64_t seed) {
  const size_t begin = text.find_first_not_of(" \n");
  const bool whole = begin != std::string::npos && text.compare(begin, 5, "func ") == 0;
  auto func = whole ? parse_func(text) : parse_loops(text);
  FETTLE_CHECK_MSG(func.has_value(), func ? "" : error_text(func.error()));
  return TestSchedule(*func, seed);
}

::testing::AssertionResult matches_golden(const std::string& text) {
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  static std::map<std::string, int> counts;
  std::string name = std::string(info->test_suite_name()) + "." + info->name();
  for (char& c : name)
    if (c == '/') c = '.';
  const int count = ++counts[name];
  if (count > 1) name += "." + std::to_string(count);
  const std::filesystem::path path = std::filesystem::path(FETTLE_SOURCE_DIR) / "tests" / "golden" / (name + ".txt");
  const char* update = std::getenv("FETTLE_UPDATE_GOLDEN");
  if (update && std::strcmp(update, "1") == 0) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return ::testing::AssertionSuccess();
  }
  std::ifstream file(path);
  if (!file) return ::testing::AssertionFailure() << "no " << path << "; FETTLE_UPDATE_GOLDEN=1 writes it:\n" << text;
  std::stringstream expected;
  expected << file.rdbuf();
  if (expected.str() == text) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "differs from " << path << ":\n"
                                       << text << "--- expected ---\n"
                                       << expected.str();
}

namespace {

::testing::AssertionResult replays_as(const TestSchedule& s, const Result<ParsedTrace>& trace, const char* form) {
  if (!trace) return ::testing::AssertionFailure() << form << ": " << error_text(trace.error());
  Schedule again(s.original, s.seed() + 1);  // another seed: what is sampled must come from the trace
  if (s.target()) again.set_target(std::make_shared<Target>(*s.target()));
  const Result<> done = replay(again, *trace);
  if (!done) return ::testing::AssertionFailure() << form << ": " << error_text(done.error());
  if (canonical_hash(again.func()) != canonical_hash(s.func()) || !structural_equal(again.func(), s.func()))
    return ::testing::AssertionFailure() << form << " replays as\n"
                                         << to_text(again.func()) << "not\n"
                                         << to_text(s.func());
  if (to_text(again.trace()) != to_text(s.trace()))
    return ::testing::AssertionFailure() << form << " gives the trace\n"
                                         << to_text(again.trace()) << "not\n"
                                         << to_text(s.trace());
  return ::testing::AssertionSuccess();
}

}  // namespace

::testing::AssertionResult replays(const TestSchedule& s) {
  if (auto json = replays_as(s, trace_from_json(to_json(s.trace())), "JSON"); !json) return json;
  return replays_as(s, parse_trace(to_text(s.trace())), "text");
}

int64_t eval_int(const Expr& e, const Env& env) {
  int64_t value = 0;
  const IntProblem problem = evaluate_int(e, env, value);
  FETTLE_CHECK_MSG(problem == IntProblem::kNone, "eval_int: " + to_text(e));
  return value;
}

TestTensor::TestTensor(const Buffer& buffer, Env env) : buffer_(buffer), env_(std::move(env)) {
  int64_t elements = 1;
  if (buffer->strides.empty()) {
    for (const Expr& extent : buffer->shape) elements *= eval_int(extent, env_);
  } else {
    for (size_t d = 0; d < buffer->shape.size(); ++d)
      elements += (eval_int(buffer->shape[d], env_) - 1) * eval_int(buffer->strides[d], env_);
  }
  bytes_.assign(static_cast<size_t>(elements * buffer->dtype.element_bytes()), 0);
}

std::vector<int64_t> TestTensor::logical_shape() const {
  std::vector<int64_t> shape;
  for (const Expr& e : buffer_->layout ? buffer_->layout->logical_shape : buffer_->shape)
    shape.push_back(eval_int(e, env_));
  return shape;
}

char* TestTensor::at(const std::vector<int64_t>& logical) {
  std::vector<int64_t> indices = logical;
  if (buffer_->layout) {
    Env env = env_;
    const IndexMap& map = buffer_->layout->to_physical;
    for (size_t d = 0; d < map.inputs.size(); ++d) env.push(map.inputs[d].get(), logical[d]);
    indices.clear();
    for (const Expr& e : map.outputs) indices.push_back(eval_int(e, env));
  }
  int64_t offset = 0;
  for (size_t d = 0; d < indices.size(); ++d)
    offset = buffer_->strides.empty() ? offset * eval_int(buffer_->shape[d], env_) + indices[d]
                                      : offset + indices[d] * eval_int(buffer_->strides[d], env_);
  return bytes_.data() + offset * buffer_->dtype.element_bytes();
}

void TestTensor::set(const std::vector<int64_t>& logical, int64_t value) {
  const DType t = buffer_->dtype;
  const auto put = [&](auto x) { std::memcpy(at(logical), &x, sizeof x); };
  if (t == kF32)
    put(static_cast<float>(value));
  else if (t == kF64)
    put(static_cast<double>(value));
  else if (t == kF16)  // small integers are exact
    put(half_of(value));
  else if (t == kBF16)  // small integers are exact
    put(static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16));
  else if (t.is_int() || t.is_bool())
    std::memcpy(at(logical), &value, static_cast<size_t>(t.element_bytes()));
  else
    FETTLE_CHECK_MSG(false, "no test data for " + t.to_string());
}

uint16_t TestTensor::half_of(int64_t value) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  return static_cast<uint16_t>((bits >> 16 & 0x8000) | (value == 0 ? 0 : (bits >> 13 & 0x3ffff) - (112 << 10)));
}

void TestTensor::fill(unsigned char byte) { std::fill(bytes_.begin(), bytes_.end(), static_cast<char>(byte)); }

::testing::AssertionResult same_result(const Func& before, const Func& after, std::vector<int64_t> ints,
                                       const RunFn& run_after) {
  const Func funcs[2] = {before, after};
  if (ints.empty())
    for (const IntParam& param : before->int_params) {
      const int64_t from = std::max<int64_t>(param.min, std::min<int64_t>(param.max, 5));
      ints.push_back(-floordiv_int(-from, param.multiple_of) * param.multiple_of);
    }
  std::vector<TestTensor> tensors[2];
  for (int f = 0; f < 2; ++f) {
    Env env;
    for (size_t i = 0; i < ints.size(); ++i) env.push(funcs[f]->int_params[i].var.get(), ints[i]);
    for (const Param& param : funcs[f]->params) tensors[f].emplace_back(param.buffer, env);
  }
  for (size_t p = 0; p < before->params.size(); ++p) {
    if (tensors[0][p].logical_shape() != tensors[1][p].logical_shape())
      return ::testing::AssertionFailure() << "the logical shape of " << before->params[p].buffer->name << " changed";
    if (before->params[p].kind == ParamKind::kOutput) {
      tensors[0][p].fill(0xff);  // what is not written differs: NaN, and another
      tensors[1][p].fill(0xfe);
      continue;
    }
    RandomStream stream{7, p};
    for_each_index(tensors[0][p].logical_shape(), [&](const std::vector<int64_t>& index) {
      const int64_t value =
          static_cast<int64_t>(stream.below(7)) - (before->params[p].buffer->dtype.code == TypeCode::kUInt ? 0 : 3);
      tensors[0][p].set(index, value);
      tensors[1][p].set(index, value);
    });
  }
  for (int f = 0; f < 2; ++f) {
    std::vector<BufferArg> args;
    for (TestTensor& tensor : tensors[f]) args.push_back(tensor.arg());
    if (const Result<> done = f && run_after ? run_after(args, ints) : interpret(funcs[f], args, ints); !done)
      return ::testing::AssertionFailure() << (f ? "after: " : "before: ") << error_text(done.error()) << "\n"
                                           << to_text(funcs[f]);
  }
  std::string difference;
  for (size_t p = 0; p < before->params.size(); ++p) {
    if (before->params[p].kind != ParamKind::kOutput) continue;
    for_each_index(tensors[0][p].logical_shape(), [&](const std::vector<int64_t>& index) {
      if (!difference.empty()) return;
      if (std::memcmp(tensors[0][p].at(index), tensors[1][p].at(index),
                      static_cast<size_t>(tensors[0][p].element_bytes())) == 0)
        return;
      difference = before->params[p].buffer->name + "[";
      for (int64_t i : index) difference += (difference.back() == '[' ? "" : ", ") + std::to_string(i);
      difference += "] differs";
      if (before->params[p].buffer->dtype == kF32) {
        float x, y;
        std::memcpy(&x, tensors[0][p].at(index), sizeof x);
        std::memcpy(&y, tensors[1][p].at(index), sizeof y);
        difference += ": " + std::to_string(x) + " before, " + std::to_string(y) + " after";
      }
    });
  }
  if (difference.empty()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << difference << "\n" << to_text(after);
}

}  // namespace fettle::testing
