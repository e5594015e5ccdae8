// Calls of functions outside of the program that have a known meaning, and what one replica does of collectives.

#include <fmt/format.h>

#include <algorithm>

#include "frontend/stablehlo/elementwise.h"
#include "graph/op_util.h"

namespace fettle::stablehlo {
namespace {

// How tensors lie on devices: of one, it is all there.
Result<Tensors> same(OpImport& o) {
  if (o.in.size() != o.op.results.size())
    return o.mistaken(fmt::format("{} operands for {} results", o.in.size(), o.op.results.size()));
  return o.in;
}

// (holds, number…) {error_message}: a message whose "{0}" are the numbers.
Result<Tensors> shape_assertion(OpImport& o) {
  FETTLE_TRY(Value * holds, o.real(0));
  o.g.require(o.g.reshape(holds, {}), o.text("error_message", "a shape is not what the program asserts"));
  return Tensors(o.op.results.size());
}

// --- of one replica and one partition

Result<Tensors> number_zero(OpImport& o) { return Tensors{{o.integer_constant(0, o.result_dtype())}}; }

// Groups of one have one element each, the first replica's.
Result<> check_alone(OpImport& o) {
  const Attribute* groups = find_attribute(o.op.attributes, "replica_groups");
  const auto* elements = groups ? groups->get_if<DenseElements>() : nullptr;
  if (elements && elements->data.n_elems() > 1)
    return o.refuse(fmt::format("between {} replicas", elements->data.n_elems()));
  return {};
}
Result<Tensors> alone(OpImport& o) {
  FETTLE_TRY_VOID(check_alone(o));
  return same(o);
}
// (source, target) pairs: a replica that is no target gets zeros.
Result<Tensors> collective_permute(OpImport& o) {
  const Ints pairs = o.ints("source_target_pairs");
  for (size_t k = 0; k + 1 < pairs.size(); k += 2) {
    if (pairs[k] == 0 && pairs[k + 1] == 0) return same(o);
    if (pairs[k] != 0 || pairs[k + 1] != 0) return o.refuse("between several replicas");
  }
  Tensor result = o.in[0];
  for_each_part(result, [&](Value*& part) { part = o.expand(Elements(o).whole(0, part), part->shape()); });
  return Tensors{result};
}

constexpr OpEntry kCustomCalls[] = {
    // Between VHLO's types and those of other dialects, around an operator of Shardy's.
    {"builtin.unrealized_conversion_cast", same},
    {"sdy.sharding_constraint", same},
    {"stablehlo.all_gather", alone},
    {"stablehlo.all_reduce", alone},
    {"stablehlo.all_to_all", alone},
    {"stablehlo.collective_broadcast", alone},
    {"stablehlo.collective_permute", collective_permute},
    {"stablehlo.collective_reduce", alone},
    {"stablehlo.cross-replica-sum", alone},
    {"stablehlo.custom_call @LayoutConstraint", same},
    {"stablehlo.custom_call @SPMDFullToShardShape", same},
    {"stablehlo.custom_call @SPMDShardToFullShape", same},
    {"stablehlo.custom_call @Sharding", same},
    {"stablehlo.custom_call @annotate_device_placement", same},
    {"stablehlo.custom_call @shape_assertion", shape_assertion},
    {"stablehlo.partition_id", number_zero},
    {"stablehlo.reduce_scatter", alone},
    {"stablehlo.replica_id", number_zero},
};

}  // namespace

extern constinit const OpEntries custom_call_operators{kCustomCalls};

}  // namespace fettle::stablehlo
