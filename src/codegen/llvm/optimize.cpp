#include "codegen/llvm/optimize.h"

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/Passes/PassBuilder.h>

#include "base/check.h"

namespace fettle::llvm_backend {

using namespace llvm;

namespace {

constexpr const char* kMark = "fettle-plain-loops";

// What is larger would take long, is mostly written out, and was given its final form.
constexpr unsigned kMostInstructions = 10'000;

// As the names in `opt -passes`.
constexpr const char* kPasses =
    // Values in place of memory; loops that test at their end.
    "sroa<modify-cfg>,early-cse<memssa>,simplifycfg,instcombine<no-verify-fixpoint>,"
    "loop-mssa(loop-rotate,licm),simplifycfg,instcombine<no-verify-fixpoint>,loop(indvars),gvn,loop-mssa(licm),"
    // Lanes.
    "loop-vectorize,loop-load-elim,instcombine<no-verify-fixpoint>,simplifycfg,slp-vectorizer,"
    // What lanes have left.
    "loop-unroll<O2>,instcombine<no-verify-fixpoint>,loop-mssa(licm),early-cse<memssa>,simplifycfg";

bool has_plain_loops(Function& function) {
  const DominatorTree dominators(function);
  const LoopInfo loops(dominators);
  return any_of(loops.getLoopsInPreorder(), [](const Loop* loop) {
    const auto has_vectors = [](const BasicBlock* block) {
      return any_of(*block, [](const Instruction& i) { return i.getType()->isVectorTy(); });
    };
    return loop->isInnermost() && none_of(loop->blocks(), has_vectors);
  });
}

// The term that an update adds to what it goes on from: a load from where it is stored, or a phi that it comes back to.
bool goes_on_from(const Value* before, const Value* after) {
  if (const auto* phi = dyn_cast<PHINode>(before)) return is_contained(phi->incoming_values(), after);
  const auto* loaded = dyn_cast<LoadInst>(before);
  return loaded && any_of(after->users(), [&](const User* user) {
           const auto* stored = dyn_cast<StoreInst>(user);
           return stored && stored->getValueOperand() == after &&
                  stored->getPointerOperand() == loaded->getPointerOperand();
         });
}

// Sums that loops take get LLVM's leave to be taken in another order. Multiply-adds among them come apart, for lanes
// are found in sums alone; selecting instructions joins them again.
void loosen_sums(Function& function) {
  FastMathFlags any_order;
  any_order.setAllowReassoc();
  any_order.setNoSignedZeros();
  any_order.setAllowContract();
  FastMathFlags joined;
  joined.setAllowContract();
  for (Instruction& i : make_early_inc_range(instructions(function))) {
    const auto* call = dyn_cast<IntrinsicInst>(&i);
    if (call && call->getIntrinsicID() == Intrinsic::fma && goes_on_from(call->getArgOperand(2), call)) {
      IRBuilder<> b(&i);
      b.setFastMathFlags(joined);
      Value* product = b.CreateFMul(call->getArgOperand(0), call->getArgOperand(1));
      b.setFastMathFlags(any_order);
      i.replaceAllUsesWith(b.CreateFAdd(call->getArgOperand(2), product));
      i.eraseFromParent();
    } else if ((i.getOpcode() == Instruction::FAdd &&
                (goes_on_from(i.getOperand(0), &i) || goes_on_from(i.getOperand(1), &i))) ||
               (i.getOpcode() == Instruction::FSub && goes_on_from(i.getOperand(0), &i))) {
      i.setFastMathFlags(any_order);
    }
  }
}

}  // namespace

void mark_plain_loops(Function& function) { function.addFnAttr(kMark); }

void optimize(Module& module, TargetMachine& machine) {
  std::vector<Function*> functions;
  for (Function& function : module)
    if (function.hasFnAttribute(kMark) && function.getInstructionCount() <= kMostInstructions &&
        has_plain_loops(function))
      functions.push_back(&function);
  if (functions.empty()) return;
  PassBuilder builder(&machine);
  LoopAnalysisManager loop_analyses;
  FunctionAnalysisManager function_analyses;
  CGSCCAnalysisManager component_analyses;
  ModuleAnalysisManager module_analyses;
  builder.registerModuleAnalyses(module_analyses);
  builder.registerCGSCCAnalyses(component_analyses);
  builder.registerFunctionAnalyses(function_analyses);
  builder.registerLoopAnalyses(loop_analyses);
  builder.crossRegisterProxies(loop_analyses, function_analyses, component_analyses, module_analyses);
  FunctionPassManager passes;
  const auto problem = toString(builder.parsePassPipeline(passes, kPasses));
  FETTLE_CHECK_MSG(problem.empty(), problem);
  for (Function* function : functions) {
    loosen_sums(*function);
    passes.run(*function, function_analyses);
  }
}

}  // namespace fettle::llvm_backend
