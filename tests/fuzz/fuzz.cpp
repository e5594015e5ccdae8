#include "tests/fuzz/fuzz.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <optional>

#include "analysis/block_checks.h"
#include "analysis/verify.h"
#include "base/check.h"
#include "base/checks.h"
#include "base/hash.h"
#include "ir/compare.h"
#include "ir/interpret.h"
#include "ir/text.h"
#include "ir/visit.h"
#include "lower/device/device.h"
#include "tests/fuzz/memory.h"
#include "tests/fuzz/processes.h"
#include "tests/fuzz/program.h"
#include "tests/fuzz/steps.h"
#include "tests/fuzz/tally.h"

namespace fettle::fuzz {
namespace {

constexpr int kCasesPerProgram = 8;
constexpr int64_t kMostIdleCases = 1 << 14;  // nothing is made of any: it ends

int primitive_number(const PrimitiveDef& def) {
  const auto defs = primitive_defs();
  for (size_t i = 0; i < defs.size(); ++i)
    if (defs[i] == &def) return static_cast<int>(i);
  return kMaxPrimitives - 1;
}

struct Expected {
  std::vector<Place> places;    // of the original program's parameters
  std::vector<Values> inputs;   // what each begins with; of outputs nothing
  std::vector<Values> results;  // what each ends with
};

Env env_of(const Func& func, const std::vector<int64_t>& ints) {
  Env env;
  for (size_t i = 0; i < ints.size(); ++i) env.push(func->int_params[i].var.get(), ints[i]);
  return env;
}

/// Whether anything is multiplied by what is read: factors are taken to be finite (lower/passes/passes.h,
/// annihilate_guards).
bool multiplies_reads(const Func& func) {
  bool found = false;
  walk(
      func->body, [&](const Stmt&) { return !found; },
      [&](const Expr& e) {
        const auto* product = e.as<BinaryNode>();
        if (product && product->op == BinaryOp::kMul && e.dtype().is_float())
          found |= product->a.kind() != ExprKind::kFloatImm && product->b.kind() != ExprKind::kFloatImm;
        return !found;
      });
  return found;
}

/// What the interpreter makes of the unscheduled program.
Expected expected_of(const Program& program, uint64_t seed) {
  Expected out;
  const Env env = env_of(program.func, program.ints);
  std::vector<std::vector<char>> memory;
  std::vector<BufferArg> args;
  const bool nans = seed % 3 == 0 && !multiplies_reads(program.func);
  for (size_t p = 0; p < program.func->params.size(); ++p) {
    const Param& param = program.func->params[p];
    out.places.emplace_back(*param.buffer, env);
    out.inputs.push_back(random_values(param, out.places.back(), hash_combine(seed, p), 40, nans));
    memory.emplace_back(static_cast<size_t>(out.places.back().size_bytes()), 0x5a);
    if (param.kind != ParamKind::kOutput) put(out.inputs.back(), out.places.back(), memory.back().data());
  }
  for (auto& m : memory) args.push_back({m.data(), static_cast<int64_t>(m.size())});
  const auto done = interpret(program.func, args, program.ints);
  FETTLE_CHECK_MSG(done.has_value(), (done ? "" : done.error().to_string()) + "\n" + to_text(program.func));
  for (size_t p = 0; p < memory.size(); ++p)
    out.results.push_back(taken(out.inputs[p].type, out.places[p], memory[p].data()));
  return out;
}

/// Whether an output is handed out as whoever reads it next expects it: zero where its layout has no element.
bool pad_lanes_are_zero(const BufferNode& buffer, const Place& place, const char* memory) {
  if (!has_pad_lanes(buffer)) return true;
  std::vector<bool> is_element(static_cast<size_t>(place.size_bytes()), false);
  place.each([&](int64_t offset) {
    for (int b = 0; b < place.element_bytes(); ++b) is_element[static_cast<size_t>(offset + b)] = true;
  });
  for (size_t i = 0; i < is_element.size(); ++i)
    if (!is_element[i] && memory[i] != 0) return false;
  return true;
}

/// Runs something that computes `scheduled` and compares; empty if all is well.
std::string difference(const Program& program, const Func& scheduled, const Expected& expected, bool at_end,
                       const std::function<Result<>(std::span<void* const>)>& run) {
  const Env env = env_of(scheduled, program.ints);
  std::vector<Guarded> memory;
  std::vector<Place> places;
  std::vector<void*> pointers;
  for (size_t p = 0; p < scheduled->params.size(); ++p) {
    const Param& param = scheduled->params[p];
    places.emplace_back(*param.buffer, env);
    if (places.back().logical_shape() != expected.places[p].logical_shape())
      return "the logical shape of " + param.buffer->name + " changed";
    memory.emplace_back(places.back().size_bytes(), at_end);
    // Pad lanes of inputs are zero; what an output holds before differs from what the interpreter's held.
    std::memset(memory.back().data(), param.kind == ParamKind::kOutput ? 0xa5 : 0,
                static_cast<size_t>(places.back().size_bytes()));
    if (param.kind != ParamKind::kOutput) put(expected.inputs[p], places.back(), memory.back().data());
    pointers.push_back(memory.back().data());
  }
  const Result<> done = run(pointers);
  if (!done) return "it fails: " + done.error().to_string();
  for (size_t p = 0; p < places.size(); ++p) {
    const Param& param = scheduled->params[p];
    std::string where;
    if (!memory[p].margin_is_whole()) return "it writes outside of " + param.buffer->name;
    if (!same(expected.results[p], taken(param.buffer->dtype, places[p], memory[p].data()), &where))
      return param.buffer->name + ": " + where;
    if (param.kind == ParamKind::kOutput && !pad_lanes_are_zero(*param.buffer, places[p], memory[p].data()))
      return param.buffer->name + ": a pad lane is not zero";
  }
  return "";
}

std::string interpreted_difference(const Program& program, const Func& scheduled, const Expected& expected) {
  return difference(program, scheduled, expected, true, [&](std::span<void* const> buffers) {
    std::vector<BufferArg> args;
    const Env env = env_of(scheduled, program.ints);
    for (size_t p = 0; p < buffers.size(); ++p)
      args.push_back({buffers[p], Place(*scheduled->params[p].buffer, env).size_bytes()});
    return interpret(scheduled, args, program.ints);
  });
}

/// Says which stage is to blame.
std::string blamed(const Program& program, const Func& scheduled, const Expected& expected, const std::string& what) {
  const std::string interpreted = interpreted_difference(program, scheduled, expected);
  return interpreted.empty() ? "compiled wrongly: " + what : "scheduled wrongly (interpreted): " + interpreted;
}

class Worker {
 public:
  explicit Worker(const FuzzOptions& options) : options_(options) {
    target_ = std::make_shared<Target>(*parse_target(options.backend->target));
  }
  std::shared_ptr<const Target> target() const { return target_; }

  Program program_of(int64_t number) const {
    const int64_t program = number / kCasesPerProgram;
    const bool tiles = target_->has_threads() && program % 2 == 1;
    const auto make = options_.affine ? random_affine_program : tiles ? random_tile_program : random_program;
    return make(hash_combine(options_.seed, static_cast<uint64_t>(program)));
  }
  Made schedule_of(const Program& program, int64_t number, const Tried& tried) const {
    const uint64_t seed = hash_combine(hash_combine(options_.seed, 77), static_cast<uint64_t>(number));
    const auto make = options_.affine ? random_affine_schedule : random_schedule;
    return make(program.func, target_, seed, 2 + static_cast<int>(seed % static_cast<uint64_t>(options_.max_actions)),
                tried);
  }
  uint64_t data_seed(int64_t number) const {
    return hash_combine(options_.seed, static_cast<uint64_t>(number / kCasesPerProgram) + 1234567);
  }

  /// Cases from at.next to `end` of the batch that begins at `first`, compiled together or each by itself.
  void work(Tally& tally, At& at, int64_t first, int64_t end) {
    const DisabledChecks disabled(options_.disabled_checks);
    while (at.next < end) {
      const int64_t stop = at.one_by_one != 0 ? at.next + 1 : end;
      run_together(tally, at, first, at.next, stop);
      at.next = stop;
    }
  }

  /// A single schedule; empty if all is well.
  std::string check(const Program& program, int64_t number, const Func& scheduled) {
    const DisabledChecks disabled(options_.disabled_checks);
    if (const auto fine = check_well_formed(scheduled); !fine) return "not well-formed: " + fine.error().to_string();
    const Expected expected = expected_of(program, data_seed(number));
    std::vector<Job> jobs(1);
    jobs[0].scheduled = scheduled;
    const auto compiled = options_.backend->compile(jobs, *target_);
    if (!compiled) return "it cannot be compiled: " + compiled.error().to_string();
    if (jobs[0].refused.code != ErrorCode::kNone) return "";
    const std::string what =
        difference(program, scheduled, expected, number % 2 == 0,
                   [&](std::span<void* const> buffers) { return jobs[0].run(buffers, program.ints); });
    return what.empty() ? "" : blamed(program, scheduled, expected, what);
  }

 private:
  struct Case {
    int64_t number;
    std::shared_ptr<const Program> program;
    std::shared_ptr<const Expected> expected;
    Schedule schedule;
    int applied;
  };

  void run_together(Tally& tally, At& now, int64_t first, int64_t begin, int64_t end) {
    std::vector<Case> cases;
    for (int64_t number = begin; number < end; ++number) {
      now.current_case = number;
      watch(kHangSeconds);
      if (number / kCasesPerProgram != program_number_) {
        program_number_ = number / kCasesPerProgram;
        program_ = std::make_shared<Program>(program_of(number));
        expected_ = std::make_shared<Expected>(expected_of(*program_, data_seed(number)));
      }
      Made made = schedule_of(*program_, number, [&](const PrimitiveDef& def, ErrorCode code) {
        if (code != ErrorCode::kNone)
          ++tally.refused[primitive_number(def)][std::min(static_cast<int>(code), kMaxCodes - 1)];
      });
      tally.of_case[number - first].made = 1;
      if (made.applied == 0) continue;
      if (const auto fine = check_well_formed(made.schedule.func()); !fine) {
        tally.report(number, "not well-formed: " + fine.error().to_string());
        continue;
      }
      if (number % 16 == 3) {
        if (const std::string what = replay_difference(*program_, made.schedule); !what.empty())
          tally.report(number, what);
      }
      cases.push_back({number, program_, expected_, std::move(made.schedule), made.applied});
    }
    std::vector<Job> jobs(cases.size());
    for (size_t i = 0; i < cases.size(); ++i) jobs[i].scheduled = cases[i].schedule.func();
    now.compiling = 1;
    watch(kHangSeconds + static_cast<int>(jobs.size()));
    const auto compiled = options_.backend->compile(jobs, *target_);
    now.compiling = 0;
    if (!compiled) {
      if (cases.size() == 1)
        return tally.report(cases[0].number, "it cannot be compiled: " + compiled.error().to_string());
      for (int64_t number = begin; number < end; ++number) {  // which one?
        run_single_again(tally, number);
      }
      return;
    }
    for (size_t i = 0; i < cases.size(); ++i) {
      const Case& one = cases[i];
      now.current_case = one.number;
      CaseTally& counted = tally.of_case[one.number - first];
      watch(kHangSeconds);
      if (jobs[i].refused.code != ErrorCode::kNone) {
        counted.refused = 1;
        continue;
      }
      counted.ran = 1;
      counted.steps = one.applied;
      for (const auto& step : one.schedule.trace().steps) ++counted.applied[primitive_number(*step->def)];
      const std::string what =
          difference(*one.program, jobs[i].scheduled, *one.expected, one.number % 2 == 0,
                     [&](std::span<void* const> buffers) { return jobs[i].run(buffers, one.program->ints); });
      if (!what.empty()) tally.report(one.number, blamed(*one.program, jobs[i].scheduled, *one.expected, what));
    }
    watch(0);
  }

  void run_single_again(Tally& tally, int64_t number) {
    const Program program = program_of(number);
    const Made made = schedule_of(program, number, [](const PrimitiveDef&, ErrorCode) {});
    if (made.applied == 0) return;
    if (const std::string what = check(program, number, made.schedule.func()); !what.empty())
      tally.report(number, what);
  }

  /// The trace's text and JSON must lead to the same program.
  std::string replay_difference(const Program& program, const Schedule& schedule) {
    for (const bool json : {false, true}) {
      const auto parsed = json ? trace_from_json(to_json(schedule.trace())) : parse_trace(to_text(schedule.trace()));
      if (!parsed) return "its trace cannot be read back: " + parsed.error().to_string();
      Schedule again(program.func, schedule.seed() + 1);
      again.set_target(target_);
      if (const auto done = replay(again, *parsed); !done)
        return "its trace does not replay: " + done.error().to_string();
      if (!structural_equal(again.func(), schedule.func())) return "its trace replays to another program";
    }
    const auto text = parse_func(to_text(schedule.func()));
    if (!text) return "the program's text cannot be read back: " + text.error().to_string();
    if (!structural_equal(*text, schedule.func())) return "the program's text is of another program";
    return "";
  }

  FuzzOptions options_;
  std::shared_ptr<const Target> target_;
  int64_t program_number_ = -1;
  std::shared_ptr<Program> program_;
  std::shared_ptr<Expected> expected_;
};

/// Drops steps for as long as something is wrong.
void shrink(const FuzzOptions& options, Finding& finding) {
  Worker worker(options);
  const Program program = worker.program_of(finding.case_number);
  finding.program = to_text(program.func);
  for (size_t i = 0; i < program.ints.size(); ++i)
    finding.program += fmt::format("# {} = {}\n", program.func->int_params[i].var->name, program.ints[i]);
  const auto text =
      static_cast<char*>(mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  FETTLE_CHECK(text != MAP_FAILED);
  // The trace is made in a child too: making it may be what crashes.
  const Outcome made = in_child([&] {
    const DisabledChecks disabled(options.disabled_checks);
    watch(kHangSeconds);
    const Made m = worker.schedule_of(program, finding.case_number, [](const PrimitiveDef&, ErrorCode) {});
    std::strncpy(text, to_text(m.schedule.trace()).c_str(), (1 << 20) - 1);
    return 0;
  });
  const auto parsed = made.exited ? parse_trace(text) : Result<ParsedTrace>(fail(ErrorCode::E224));
  if (!parsed) {
    finding.trace = made.exited ? std::string(text) : "# making the trace ends so\n";
    munmap(text, 1 << 20);
    return;
  }
  const auto wrong = [&](const std::vector<bool>& dropped) {
    const Outcome outcome = in_child([&] {
      const DisabledChecks disabled(options.disabled_checks);
      watch(kHangSeconds);
      const Schedule s = replay_without(program.func, worker.target(), *parsed, dropped);
      if (!verify(s.func(), *worker.target())) return 0;
      const std::string what = worker.check(program, finding.case_number, s.func());
      if (what.empty()) return 0;
      std::strncpy(text, (what + "\n" + to_text(s.trace())).c_str(), (1 << 20) - 1);
      return 1;
    });
    if (!outcome.exited && !is_hang(outcome.code)) {
      // What crashed left no text: make it again without running it.
      in_child([&] {
        const DisabledChecks disabled(options.disabled_checks);
        const Schedule s = replay_without(program.func, worker.target(), *parsed, dropped);
        std::strncpy(text, (signal_text(outcome.code) + "\n" + to_text(s.trace())).c_str(), (1 << 20) - 1);
        return 0;
      });
    }
    return !outcome.exited ? !is_hang(outcome.code) : outcome.code == 1;
  };
  std::vector<bool> dropped(parsed->steps.size(), false);
  std::string smallest;
  if (wrong(dropped)) {
    smallest = text;
    for (size_t chunk = std::max<size_t>(dropped.size() / 2, 1);; chunk = chunk > 1 ? chunk / 2 : 1) {
      bool any = false;
      for (size_t at = dropped.size(); at > 0;) {
        const size_t from = at > chunk ? at - chunk : 0;
        std::vector<bool> fewer = dropped;
        for (size_t i = from; i < at; ++i) fewer[i] = true;
        at = from;
        if (fewer == dropped || !wrong(fewer)) continue;
        dropped = fewer;
        smallest = text;
        any = true;
      }
      if (chunk == 1 && !any) break;
    }
    const size_t end_of_line = smallest.find('\n');
    finding.what = smallest.substr(0, end_of_line);
    finding.trace = smallest.substr(end_of_line + 1);
  } else {
    finding.what += " (not when it runs alone)";
    finding.trace = to_text(replay_without(program.func, worker.target(), *parsed, dropped).trace());
  }
  munmap(text, 1 << 20);
}

}  // namespace

FuzzReport fuzz(const FuzzOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  FuzzReport out;
  int64_t idle = 0;  // cases since the last that ran
  const auto work = [&, worker = std::optional<Worker>()](Tally& tally, At& at, int64_t first, int64_t end) mutable {
    if (!worker) worker.emplace(options);
    worker->work(tally, at, first, end);
  };
  const auto take = [&](const Tally& tally) {
    for (int i = 0; i < tally.n_findings; ++i) {
      out.findings.push_back({tally.findings[i].case_number, tally.findings[i].what, "", ""});
      if (options.progress) options.progress(out.traces, &out.findings.back());
    }
    const auto defs = primitive_defs();
    for (int c = 0; c < options.batch && out.traces < options.traces; ++c) {
      const CaseTally& one = tally.of_case[c];
      out.cases += one.made;
      out.not_lowered += one.refused;
      idle = one.ran != 0 ? 0 : idle + 1;
      if (one.ran == 0) continue;
      ++out.traces;
      out.steps += one.steps;
      for (size_t p = 0; p < defs.size(); ++p) out.primitives[std::string(defs[p]->name)].applied += one.applied[p];
    }
    for (size_t p = 0; p < defs.size(); ++p)
      for (int code = 0; code < kMaxCodes; ++code)
        if (tally.refused[p][code] != 0)
          out.primitives[std::string(defs[p]->name)].refused[static_cast<ErrorCode>(code)] += tally.refused[p][code];
    if (options.progress) options.progress(out.traces, nullptr);
    return out.traces < options.traces && static_cast<int>(out.findings.size()) < options.max_findings &&
           idle < kMostIdleCases;
  };
  run_batches({.processes = options.processes, .first_case = options.first_case, .cases = options.batch}, work, take);
  if (static_cast<int>(out.findings.size()) > options.max_findings)
    out.findings.resize(static_cast<size_t>(std::max(1, options.max_findings)));
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (options.shrink)
    for (Finding& finding : out.findings) shrink(options, finding);
  return out;
}

std::string examine(const FuzzOptions& options, const std::string& finding) {
  // A program ends where the first line comes that is neither indented nor its own; "# n = 9" gives its integers.
  std::string program_text, trace_text;
  Program program;
  bool in_program = false, in_trace = false;
  for (size_t at = 0; at < finding.size();) {
    const size_t end = std::min(finding.find('\n', at), finding.size() - 1) + 1;
    const std::string line = finding.substr(at, end - at);
    at = end;
    const bool begins = line.starts_with("func ");
    if (begins) in_program = true;
    in_trace |= in_program && !begins && line[0] != ' ' && line[0] != '\n' && line[0] != '#';
    if (const size_t equals = line.find(" = "); line[0] == '#' && equals != std::string::npos && in_program)
      program.ints.push_back(std::stoll(line.substr(equals + 3)));
    else if (in_trace && (line.starts_with("---") || line.starts_with("seed ")))
      break;
    else if (in_trace)
      trace_text += line;
    else if (in_program)
      program_text += line;
  }
  const auto func = parse_func(program_text);
  if (!func) return "the program: " + func.error().to_string() + "\n";
  program.func = *func;
  const auto trace = parse_trace(trace_text);
  if (!trace) return "the trace: " + trace.error().to_string() + "\n";
  const DisabledChecks disabled(options.disabled_checks);
  Worker worker(options);
  const Schedule s =
      replay_without(program.func, worker.target(), *trace, std::vector<bool>(trace->steps.size(), false));
  std::string out = fmt::format("--- scheduled ({} of {} steps)\n{}", s.trace().steps.size(), trace->steps.size(),
                                fettle::to_text(s.func()));
  if (const auto verified = verify(s.func(), *worker.target()); !verified)
    return out + "--- refused: " + verified.error().to_string() + "\n";
  if (const auto fine = check_well_formed(s.func()); !fine)
    return out + "--- not well-formed: " + fine.error().to_string() + "\n";
  if (worker.target()->has_threads()) {
    const auto device = lower_for_device(s.func(), *worker.target());
    if (!device) return out + "--- not lowered: " + device.error().to_string() + "\n";
    out += "--- host\n" + fettle::to_text(device->host);
    for (const auto& [name, kernel] : device->kernels) out += "--- kernel\n" + fettle::to_text(kernel.func);
  } else {
    const auto lowered = lower(s.func(), *worker.target());
    if (!lowered) return out + "--- not lowered: " + lowered.error().to_string() + "\n";
    for (const IrModule* module : {&lowered->prologue, &lowered->kernel})
      for (const auto& [name, one] : module->funcs) out += "--- lowered\n" + fettle::to_text(one);
  }
  fmt::print("{}", out);
  const Outcome outcome = in_child([&] {
    const std::string what = worker.check(program, 0, s.func());
    fmt::print("--- {}\n", what.empty() ? "it is right" : what);
    fflush(nullptr);
    return 0;
  });
  return outcome.exited ? "" : "--- " + signal_text(outcome.code) + "\n";
}

std::string FuzzReport::to_text() const {
  std::string text = fmt::format("{:<26}{:>9}{:>9}  {}\n", "primitive", "applied", "refused", "why");
  for (const auto& [name, count] : primitives) {
    int64_t refused = 0;
    std::vector<std::pair<int64_t, std::string>> why;
    for (const auto& [code, n] : count.refused) {
      refused += n;
      why.push_back({n, std::string(error_info(code).name)});
    }
    std::sort(why.rbegin(), why.rend());
    std::string list;
    for (const auto& [n, code] : why) list += fmt::format("{}{} {}", list.empty() ? "" : ", ", code, n);
    text += fmt::format("{:<26}{:>9}{:>9}  {}\n", name, count.applied, refused, list);
  }
  text +=
      fmt::format("{} traces of {} steps (from {} cases; {} refused by lowering) in {:.1f} s: {:.0f} a second\n",
                  traces, steps, cases, not_lowered, seconds, static_cast<double>(traces) / std::max(seconds, 1e-9));
  for (const Finding& finding : findings) {
    text += fmt::format("\n--- case {}: {}\n{}\n{}", finding.case_number, finding.what, finding.program, finding.trace);
  }
  return text;
}

}  // namespace fettle::fuzz
