// Calls in expressions: functions of the language, and machine intrinsics.
#include "codegen/llvm/function_emitter.h"

namespace fettle::llvm_backend {

using namespace llvm;

Value* FunctionEmitter::emit_math(const CallNode& node) {
  const std::string_view name = node.name;
  const DType type = node.dtype;
  if (name == "likely") return emit(node.args[0]);
  if (name.substr(0, 5) == "llvm.") return emit_intrinsic(node, false);
  const auto bits_of = [](DType t) { return t.bits * t.lanes; };
  if (name == "bitcast" && node.args.size() == 1 && !type.is_bool() && bits_of(node.args[0].dtype()) == bits_of(type))
    return vb_.cast(Instruction::BitCast, emit(node.args[0]), type_of(type));
  llvm::SmallVector<Value*, 4> args;
  for (const Expr& arg : node.args) args.push_back(widen(emit(arg), arg.dtype()));
  Type* wide = args.empty() ? nullptr : args[0]->getType();
  const auto one = [&](Intrinsic::ID id) { return narrow(vb_.intrinsic(id, {wide}, args), type); };
  if (name == "isnan" && args.size() == 1) return vb_.compare(CmpInst::FCMP_UNO, args[0], args[0]);
  if (name == "abs" && args.size() == 1) {
    if (type.is_float()) return one(Intrinsic::fabs);
    return vb_.intrinsic(Intrinsic::abs, {wide}, {args[0], ConstantInt::getFalse(vb_.context())});
  }
  if (name == "pow" && args.size() == 2 && type.is_int()) return vb_.pure(CallInst::Create(power_function(type), args));
  if (type.is_float()) {
    if (name == "fma" && args.size() == 3) return one(Intrinsic::fma);
    if (args.size() == 1) {
      if (name == "sqrt") return one(Intrinsic::sqrt);
      if (name == "floor") return one(Intrinsic::floor);
      if (name == "ceil") return one(Intrinsic::ceil);
      if (name == "trunc") return one(Intrinsic::trunc);
      if (name == "round") return one(Intrinsic::roundeven);
    }
  }
  return fail(ErrorCode::E301, "no code is known for " + node.name, type_of(type));
}

/// base ^ exponent of integers, by squaring until no lane has a bit of its exponent left. A function of the module.
Function* FunctionEmitter::power_function(DType type) {
  const std::string name = "power." + type.to_string();
  if (Function* known = state_.module.getFunction(name)) return known;
  LLVMContext& c = vb_.context();
  Type* ints = type_of(type);
  auto* function =
      Function::Create(FunctionType::get(ints, {ints, ints}, false), GlobalValue::InternalLinkage, name, state_.module);
  state_.set_attributes(function);
  function->setDoesNotAccessMemory();
  function->setWillReturn();
  Value *base = function->getArg(0), *exponent = function->getArg(1);
  auto* entry = BasicBlock::Create(c, "", function);
  auto* test = BasicBlock::Create(c, "", function);
  auto* step = BasicBlock::Create(c, "", function);
  auto* done = BasicBlock::Create(c, "", function);
  IRBuilder<> b(entry);
  Value *one = int_constant(type, 1), *zero = Constant::getNullValue(ints), *first = one;
  if (type.code == TypeCode::kInt) {
    // The inverse of 1 and of -1 is itself; that of others is 0.
    Value* inverts = b.CreateICmpSLT(exponent, zero);
    Value* is_unit = b.CreateOr(b.CreateICmpEQ(base, one), b.CreateICmpEQ(base, int_constant(type, -1)));
    first = b.CreateSelect(b.CreateAnd(inverts, b.CreateNot(is_unit)), zero, one);
    exponent = b.CreateSelect(inverts, b.CreateAnd(exponent, one), exponent);
  }
  b.CreateBr(test);
  b.SetInsertPoint(test);
  PHINode *result = b.CreatePHI(ints, 2), *square = b.CreatePHI(ints, 2), *left = b.CreatePHI(ints, 2);
  result->addIncoming(first, entry);
  square->addIncoming(base, entry);
  left->addIncoming(exponent, entry);
  Value* any = left;
  if (type.is_vector()) any = b.CreateOrReduce(left);
  b.CreateCondBr(b.CreateICmpNE(any, Constant::getNullValue(any->getType())), step, done);
  b.SetInsertPoint(step);
  Value* odd = b.CreateICmpNE(b.CreateAnd(left, one), zero);
  result->addIncoming(b.CreateSelect(odd, b.CreateMul(result, square), result), step);
  square->addIncoming(b.CreateMul(square, square), step);
  left->addIncoming(b.CreateLShr(left, one), step);
  b.CreateBr(test);
  b.SetInsertPoint(done);
  b.CreateRet(result);
  return function;
}

/// A machine intrinsic by LLVM's name. Arguments and result may differ from LLVM's types in anything but size; those of
/// an overloaded one ("llvm.aarch64.neon.sdot.v4i32.v16i8") must be what its name says.
Value* FunctionEmitter::emit_intrinsic(const CallNode& node, bool has_effects) {
  const Intrinsic::ID id = Function::lookupIntrinsicID(node.name);
  if (id == Intrinsic::not_intrinsic) return fail(ErrorCode::E301, "no intrinsic " + node.name, type_of(node.dtype));
  llvm::SmallVector<Value*, 6> args;
  llvm::SmallVector<Type*, 6> types;
  for (const Expr& arg : node.args) {
    args.push_back(emit(arg));
    types.push_back(args.back()->getType());
  }
  llvm::SmallVector<Type*, 4> overloads;
  if (Intrinsic::isOverloaded(id)) {
    llvm::SmallVector<Intrinsic::IITDescriptor, 8> table;
    Intrinsic::getIntrinsicInfoTableEntries(id, table);
    ArrayRef<Intrinsic::IITDescriptor> rest = table;
    auto* wanted = FunctionType::get(type_of(node.dtype), types, false);
    if (Intrinsic::matchIntrinsicSignature(wanted, rest, overloads) != Intrinsic::MatchIntrinsicTypes_Match ||
        Intrinsic::getName(id, overloads, &state_.module, wanted) != node.name)
      return fail(ErrorCode::E301, "arguments that " + node.name + " does not take", type_of(node.dtype));
  }
  Function* callee = Intrinsic::getDeclaration(&state_.module, id, overloads);
  FunctionType* type = callee->getFunctionType();
  if (type->getNumParams() != node.args.size())
    return fail(ErrorCode::E301, node.name + " takes " + std::to_string(type->getNumParams()) + " arguments",
                type_of(node.dtype));
  const DataLayout& layout = state_.module.getDataLayout();
  for (unsigned i = 0; i < args.size(); ++i) {
    Type* wanted = type->getParamType(i);
    if (args[i]->getType() == wanted) continue;
    if (auto* constant = dyn_cast<ConstantInt>(args[i]); constant && wanted->isIntegerTy()) {
      args[i] = ConstantInt::get(wanted, constant->getZExtValue());
    } else if (layout.getTypeSizeInBits(args[i]->getType()) == layout.getTypeSizeInBits(wanted)) {
      args[i] = vb_.cast(Instruction::BitCast, args[i], wanted);
    } else {
      return fail(ErrorCode::E301, "an argument of " + node.name + " has the wrong size", type_of(node.dtype));
    }
  }
  if (has_effects) return vb_.here().CreateCall(callee, args);
  const bool reads = !callee->doesNotAccessMemory();
  auto* call = CallInst::Create(callee, args);
  Value* result = reads ? vb_.read(call, ++next_state_) : vb_.pure(call);
  Type* wanted = type_of(node.dtype);
  return result->getType() == wanted ? result : vb_.cast(Instruction::BitCast, result, wanted);
}

}  // namespace fettle::llvm_backend
