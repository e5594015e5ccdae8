#pragma once
// Description of scheduled programs by lowering them: what the cost room sees.

#include <memory>

#include "cost/cost_model.h"
#include "target/target.h"
#include "tune/search/workbench.h"

namespace fettle {

class AtomTable;

/// By lower() and extract_features(); null atoms: the analytic model. `atoms` must outlive the function.
DescribeFn describe_by_lowering(std::shared_ptr<const Target> target, int threads, const AtomTable* atoms = nullptr);

/// As describe_by_lowering; what other programs taught corrects the prediction (cost/learned/learned_correction.h). Not on
/// GPUs, of which nothing was learned.
DescribeFn describe_corrected(std::shared_ptr<const Target> target, int threads, const AtomTable* atoms = nullptr);

/// As describe_by_lowering, and the features of each store, for make_statement_trees().
DescribeFn describe_statements(std::shared_ptr<const Target> target, int threads, const AtomTable* atoms = nullptr);

/// As describe_statements, without a prediction where there are stores: for what is ranked by a trained model alone
/// (CostModel::asks_prediction).
DescribeFn describe_only_statements(std::shared_ptr<const Target> target, int threads,
                                    const AtomTable* atoms = nullptr);

/// As describe_by_lowering, and the row of this kind, for make_autotvm_trees().
DescribeFn describe_row(FeatureKind kind, std::shared_ptr<const Target> target, int threads,
                        const AtomTable* atoms = nullptr);

/// As describe_row, without a prediction, as describe_only_statements.
DescribeFn describe_only_row(FeatureKind kind, std::shared_ptr<const Target> target, int threads,
                             const AtomTable* atoms = nullptr);

}  // namespace fettle
