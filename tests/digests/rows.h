#pragma once
// Rows: all that is selected, made by several threads.

#include <filesystem>
#include <string>
#include <vector>

#include "tests/digests/row.h"
#include "tests/digests/subjects.h"

namespace fettle::digests {

/// Which rows. Empty texts: all of them.
struct Selection {
  bool models = false;        // the models' tasks, too
  std::string space, target;  // by their names
  std::string task;           // a part of the subject's name

  bool has_space(const std::string& name) const { return space.empty() || name == space; }
  bool has_target(const std::string& name) const { return target.empty() || name == target; }
  bool has_task(const std::string& name) const { return name.find(task) != std::string::npos; }
  bool has(const Row& row) const {
    return has_space(row.space) && has_target(row.target) && has_task(row.subject) && (models || !row.of_model());
  }
};

/// In the order of subjects, targets and spaces. Quick: of each row the first points alone. Errors: those of
/// model_subjects
Result<std::vector<Row>> make_rows(const Selection& selection, bool quick, int threads);

/// FOLDER/SPACE/TARGET/TASK/007.steps, .trace (with decisions), .program and .lowered: all points of what is selected.
/// Of a refused point .steps says why. Errors: those of model_subjects · E702 a file that cannot be written
Result<> write_points(const Selection& selection, const std::filesystem::path& folder, int threads);
/// The folder of a row below it.
std::filesystem::path folder_of(const std::string& space, const std::string& target, const std::string& subject);

}  // namespace fettle::digests
