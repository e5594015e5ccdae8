#include "frontend/comprehension/statement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "frontend/comprehension/lexer.h"
#include "frontend/comprehension/parser.h"

namespace fettle::comprehension {
namespace {

using Kind = ClauseTree::Kind;

tl::unexpected<Diagnostic> wrong(Place place, std::string message) {
  return fail(ErrorCode::E612, std::move(message), to_string(place));
}

bool is_new_name(const Scope& scope, const Ranges& loops, const ExprTree& tree) {
  return tree.kind == ExprKind::kName && !scope.tensors.contains(tree.text) && !scope.sizes.contains(tree.text) &&
         !loops.find(tree.text);
}

// Where the expression has the name; null: nowhere.
const ExprTree* find_name(const ExprTree& tree, const std::string& name) {
  if (tree.kind == ExprKind::kName && tree.text == name) return &tree;
  for (const ExprTree& arg : tree.args)
    if (const ExprTree* found = find_name(arg, name)) return found;
  return nullptr;
}

class Analysis {
 public:
  Analysis(const Scope& scope, const Ranges& loops, const StatementTree& tree)
      : scope_(scope),
        loops_(loops),
        tree_(tree),
        made_{&tree, ExpressionReader(scope, loops), loops, loops.all().size()} {
    if (const auto found = scope.tensors.find(tree.name); found != scope.tensors.end()) target_ = &found->second;
  }

  Result<Statement> run(LeftSide left) {
    FETTLE_TRY_VOID(read_left(left));
    FETTLE_TRY_VOID(read_clauses());
    reader().take_used();
    FETTLE_TRY(const Value value, reader().read(tree_.value));
    const std::set<std::string, std::less<>> used = reader().take_used();
    made_.dtype = value.dtype;
    for (const std::string& name : reader().indices()) {
      const bool is_left = std::ranges::find(made_.left, name) != made_.left.end();
      if (!is_left && used.contains(name)) made_.reduced.push_back(name);
    }
    FETTLE_TRY_VOID(check_types(value));
    FETTLE_TRY_VOID(find_ranges());
    FETTLE_TRY_VOID(check_places());
    find_own_reads();
    return std::move(made_);
  }

 private:
  ExpressionReader& reader() { return made_.reader; }
  bool accumulates() const { return tree_.assignment != Assignment::kSet && !tree_.from_identity; }

  Result<> read_left(LeftSide left) {
    if (target_ && target_->extents.size() != tree_.indices.size())
      return wrong(tree_.place, fmt::format("{} has {} dims, and {} indices stand here", tree_.name,
                                            target_->extents.size(), tree_.indices.size()));
    for (const ExprTree& index : tree_.indices) {
      if (is_new_name(scope_, loops_, index)) {
        const bool is_again = std::ranges::find(made_.left, index.text) != made_.left.end();
        if (is_again && left == LeftSide::kIndices)
          return wrong(index.place, fmt::format("{} stands twice on the left", index.text));
        FETTLE_TRY_VOID(reader().add_index(index.text, index.place));
        if (!is_again) made_.left.push_back(index.text);
        made_.place.push_back(affine_form(Affine::variable(index.text)));
        continue;
      }
      if (left == LeftSide::kIndices)
        return wrong(index.place,
                     "on the left of a statement that is in no loop, names of indices stand, and new ones");
      FETTLE_TRY(const Value value, reader().read(index));
      if (!value.index) return wrong(index.place, "an index on the left is made of indices, sizes and numbers");
      made_.place.push_back(value.index);
    }
    for (const std::string& name : reader().indices())
      if (std::ranges::find(made_.left, name) == made_.left.end()) made_.left.push_back(name);
    if (!reader().accesses().empty()) return wrong(tree_.place, "no tensor can be read on the left");
    return {};
  }

  Result<> read_clauses() {
    for (size_t k = 0; k < tree_.clauses.size(); ++k) {
      const ClauseTree& clause = tree_.clauses[k];
      FETTLE_TRY_VOID(check_order(k));
      if (clause.kind == Kind::kLet) {
        FETTLE_TRY_VOID(reader().let(clause.name, clause.value));
      } else if (clause.kind == Kind::kExists) {
        FETTLE_TRY_VOID(reader().read(clause.value));
      } else {
        FETTLE_TRY_VOID(reader().add_index(clause.name, clause.place));
        if (std::ranges::find(given_, clause.name, &Given::name) != given_.end())
          return wrong(clause.place, fmt::format("{} has a range already", clause.name));
        FETTLE_TRY(Affine begin, reader().read_bound(clause.begin));
        FETTLE_TRY(Affine end, reader().read_bound(clause.end));
        given_.push_back({clause.name, clause.place, {std::move(begin), std::move(end)}});
      }
    }
    return {};
  }

  // What a clause speaks of stands before it.
  Result<> check_order(size_t at) const {
    const ClauseTree& clause = tree_.clauses[at];
    for (size_t k = at; k < tree_.clauses.size(); ++k) {
      const ClauseTree& later = tree_.clauses[k];
      if (later.kind != Kind::kLet) continue;
      for (const ExprTree* part : {&clause.begin, &clause.end, &clause.value})
        if (const ExprTree* use = find_name(*part, later.name))
          return wrong(use->place,
                       k == at
                           ? fmt::format("{} is defined by itself", later.name)
                           : fmt::format("{0} is used before it is defined: put \"{0} = …\" before this", later.name));
    }
    return {};
  }

  Result<> check_types(const Value& value) const {
    if (!made_.reduced.empty() && tree_.assignment == Assignment::kSet)
      return wrong(tree_.place,
                   fmt::format("{} {} on the right alone: say how to reduce (+=!, *=!, min=! or max=!)",
                               fmt::join(made_.reduced, ", "), made_.reduced.size() == 1 ? "stands" : "stand"));
    if (value.dtype.is_bool() && tree_.assignment != Assignment::kSet)
      return wrong(tree_.place, fmt::format("{} takes numbers, and the value is a bool; cast it",
                                            to_string(tree_.assignment, tree_.from_identity)));
    if (target_ && !fits(value, target_->dtype))
      return wrong(tree_.value.place, fmt::format("{} is of {}, and the value is {}; cast it", tree_.name,
                                                  type_name(target_->dtype), type_name(value.dtype)));
    return {};
  }

  // Those of where clauses, then what the tensors tell, then those of clauses that speak of other indices.
  Result<> find_ranges() {
    std::vector<Given> later;
    for (Given& given : given_)
      if (!add(given)) later.push_back(given);
    for (size_t k = 0; k < reader().accesses().size(); ++k) {
      const Access& access = reader().accesses()[k];
      const TensorInfo& tensor = scope_.tensors.find(access.tensor)->second;
      for (size_t d = 0; d < access.indices.size(); ++d)
        constraints_.push_back(
            {access.indices[d], tensor.extents[d], access.place, fmt::format("index {} of {}", d, access.tensor)});
    }
    std::vector<Constraint> written;
    if (target_)
      for (size_t d = 0; d < made_.place.size(); ++d) {
        // What is written must be there, too.
        const Form& form = made_.place[d];
        const Form index = form->kind == IndexForm::Kind::kAffine ? affine_form(form->affine - Affine{target_->base[d]})
                           : target_->base[d] == Dim(0)           ? form
                                                                  : std::make_shared<const IndexForm>();
        written.push_back({index, target_->extents[d], tree_.place, fmt::format("index {} of {}", d, tree_.name)});
      }
    if (accumulates()) constraints_.insert(constraints_.end(), written.begin(), written.end());
    std::vector<std::string> unknown = reader().indices();
    std::erase_if(unknown,
                  [&](const std::string& name) { return std::ranges::find(later, name, &Given::name) != later.end(); });
    Result<> told = infer_ranges(unknown, constraints_, made_.ranges, tree_.place);
    if (!accumulates()) {
      constraints_.insert(constraints_.end(), written.begin(), written.end());
      // What nothing else tells goes over all of the tensor that is written.
      if (!told) told = infer_ranges(unknown, constraints_, made_.ranges, tree_.place);
    }
    FETTLE_TRY_VOID(std::move(told));
    while (!later.empty()) {
      const auto next = std::ranges::find_if(later, [&](const Given& given) { return add(given); });
      if (next == later.end())
        return wrong(later[0].place, fmt::format("the range of {} depends on itself", later[0].name));
      later.erase(next);
    }
    for (size_t k = made_.n_loops; k < made_.ranges.all().size(); ++k) {
      const IndexRange& range = made_.ranges.all()[k].second;
      made_.is_rectangular = made_.is_rectangular && range.begin.is_constant() && range.end.is_constant();
    }
    return {};
  }

  struct Given {
    std::string name;
    Place place;
    IndexRange range;
  };
  bool add(const Given& given) {
    for (const Affine* bound : {&given.range.begin, &given.range.end})
      for (const auto& [name, coefficient] : bound->terms)
        if (!made_.ranges.find(name)) return false;
    made_.ranges.add(given.name, given.range);
    return true;
  }

  Result<> check_places() {
    size_t at = 0;
    for (size_t k = 0; k < reader().accesses().size(); ++k)
      for (size_t d = 0; d < reader().accesses()[k].indices.size(); ++d, ++at) {
        const bool is_guarded = reader().accesses()[k].is_guarded;
        FETTLE_TRY(const bool is_inside, check(constraints_[at], is_guarded, true));
        if (is_inside) continue;
        // Where data say the index, and where a condition does not let it be used, the nearest element is read.
        reader().hold(k, d);
        require(constraints_[at].extent - 1, constraints_[at].place,
                fmt::format("{} is held inside, and there is no element", constraints_[at].text));
      }
    for (; at < constraints_.size(); ++at) {
      FETTLE_TRY(const bool is_inside, check(constraints_[at], false, false));
      if (!is_inside)
        return wrong(constraints_[at].place,
                     fmt::format("{}, which is written, cannot be told to be inside", constraints_[at].text));
    }
    return {};
  }

  // False where it must be held inside: it may leave the tensor, or only what is required of sizes keeps it there.
  Result<bool> check(const Constraint& c, bool is_guarded, bool is_read) {
    if (c.holds) return true;
    const auto range = made_.ranges.interval(*c.index);
    if (!range) return false;
    const Dim room = c.extent - 1 - range->most;
    if (range->least.min() >= 0 && room.min() >= 0) return true;
    if (is_guarded) return false;
    if (range->least.max() < 0)
      return wrong(c.place, fmt::format("{} begins at {}; state a range: where i in begin:end", c.text,
                                        range->least.to_string()));
    if (room.max() < 0)
      return wrong(c.place, fmt::format("{} goes to {}, and its extent is {}", c.text, range->most.to_string(),
                                        c.extent.to_string()));
    require(range->least, c.place, fmt::format("{} begins at {}", c.text, range->least.to_string()));
    require(room, c.place,
            fmt::format("{} goes to {}, and its extent is {}", c.text, range->most.to_string(), c.extent.to_string()));
    return !is_read;
  }

  void require(const Dim& value, Place place, const std::string& message) {
    if (value.min() < 0) made_.checks.push_back({value, false, fmt::format("{}: {}", to_string(place), message)});
  }

  void find_own_reads() {
    for (const Access& access : reader().accesses()) {
      if (access.tensor != tree_.name) continue;
      for (size_t d = 0; d < access.indices.size(); ++d) {
        const IndexForm &read = *access.indices[d], &written = *made_.place[d];
        const bool are_affine = read.kind == IndexForm::Kind::kAffine && written.kind == IndexForm::Kind::kAffine;
        const Affine base{target_->base[d]};
        const Affine apart = are_affine ? read.affine + base - written.affine : Affine{1};
        made_.is_in_order = made_.is_in_order || !apart.is_constant() || !(apart.constant == Dim(0));
      }
    }
  }

  const Scope& scope_;
  const Ranges& loops_;
  const StatementTree& tree_;
  const TensorInfo* target_ = nullptr;
  Statement made_;
  std::vector<Given> given_;
  std::vector<Constraint> constraints_;
};

}  // namespace

Result<Statement> analyse(const Scope& scope, const Ranges& loops, const StatementTree& tree, LeftSide left) {
  return Analysis(scope, loops, tree).run(left);
}

Result<Value> value_of(Statement& statement, std::function<Expr(const std::string& index)> index,
                       ExpressionReader::ReadFn element) {
  ExpressionReader& reader = statement.reader;
  // What an exists clause names is not read.
  bool is_read = true;
  reader.restart(std::move(index), [&is_read, element = std::move(element)](const std::string& tensor,
                                                                            std::vector<Expr> indices, DType dtype) {
    return is_read ? element(tensor, std::move(indices), dtype) : Expr(make_var(tensor, dtype));
  });
  for (const ClauseTree& clause : statement.tree->clauses) {
    if (clause.kind == Kind::kLet) {
      FETTLE_TRY_VOID(reader.let(clause.name, clause.value));
    } else if (clause.kind == Kind::kExists) {
      is_read = false;
      FETTLE_TRY_VOID(reader.read(clause.value));
      is_read = true;
    }
  }
  return reader.read(statement.tree->value);
}

std::string to_string(Assignment assignment, bool from_identity) {
  constexpr std::string_view names[] = {"=", "+=", "*=", "min=", "max="};
  return std::string(names[static_cast<size_t>(assignment)]) + (from_identity ? "!" : "");
}

}  // namespace fettle::comprehension
