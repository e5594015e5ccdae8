#include "tests/digests/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "ir/text.h"
#include "tests/digests/lowered.h"
#include "tests/digests/steps.h"

namespace fettle::digests {
namespace {

constexpr int64_t kPoints = 100, kPointsOfModels = 20;
/// On which target the models' tasks are recorded.
constexpr const char* kTargetOfModels = "avx512";

/// What one thread makes at a time: the spaces of a workload on a target share what is derived of it.
struct Unit {
  const Subject* subject;
  const NamedTarget* target;
};

Result<std::vector<Subject>> subjects_of(const Selection& selection) {
  std::vector<Subject> subjects = search_subjects();
  if (selection.models) {
    FETTLE_TRY(std::vector<Subject> models, model_subjects());
    std::ranges::move(models, std::back_inserter(subjects));
  }
  std::erase_if(subjects, [&](const Subject& subject) { return !selection.has_task(subject.name); });
  return subjects;
}

std::vector<Unit> units_of(const std::vector<Subject>& subjects, const Selection& selection) {
  std::vector<Unit> units;
  for (const Subject& subject : subjects)
    for (const NamedTarget& target : named_targets())
      if (selection.has_target(target.name) && (!subject.of_model || target.name == kTargetOfModels))
        units.push_back({&subject, &target});
  return units;
}

int64_t points_of(const Subject& subject) { return subject.of_model ? kPointsOfModels : kPoints; }

/// Calls `visit(number of the unit, its target, a maker)` for each selected space of each unit.
template <class Visit>
void for_each_space(const std::vector<Unit>& units, const Selection& selection, int threads, const Visit& visit) {
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < units.size(); i = next++) {
      auto workload = parse_func(units[i].subject->workload);
      FETTLE_CHECK_MSG(workload.has_value(), "a workload's own text");
      const auto target = std::make_shared<const Target>(parse_target(units[i].target->text).value());
      for (const PointMaker& maker : point_makers(*workload, target))
        if (selection.has_space(maker.space)) visit(i, *target, maker);
    }
  };
  std::vector<std::jthread> pool;
  for (int i = 1; i < threads; ++i) pool.emplace_back(work);
  work();
}

Result<> write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) return fail(ErrorCode::E702, "it cannot be written", path.string());
  return {};
}

Result<> write_point(const Result<Schedule>& made, const Target& target, const std::filesystem::path& path) {
  const auto with = [&](const char* extension) { return path.string() + extension; };
  if (!made) return write_file(with(".steps"), "refused: " + made.error().to_string() + "\n");
  FETTLE_TRY_VOID(write_file(with(".steps"), steps_text(made->trace())));
  FETTLE_TRY_VOID(write_file(with(".trace"), to_text(made->trace())));
  FETTLE_TRY_VOID(write_file(with(".program"), to_text(made->func())));
  return write_file(with(".lowered"), lowered(*made, target).text);
}

}  // namespace

std::filesystem::path folder_of(const std::string& space, const std::string& target, const std::string& subject) {
  std::string name = subject;
  std::ranges::replace_if(name, [](char c) { return c == ' ' || c == '/' || c == ':'; }, '_');
  return std::filesystem::path(space) / target / name;
}

Result<std::vector<Row>> make_rows(const Selection& selection, bool quick, int threads) {
  FETTLE_TRY(const std::vector<Subject> subjects, subjects_of(selection));
  const std::vector<Unit> units = units_of(subjects, selection);
  std::vector<std::vector<Row>> made(units.size());
  for_each_space(units, selection, threads, [&](size_t i, const Target& target, const PointMaker& maker) {
    const Subject& subject = *units[i].subject;
    made[i].push_back(make_row(maker, subject.name, target, units[i].target->name, points_of(subject), quick));
  });
  std::vector<Row> rows;
  for (std::vector<Row>& some : made) std::ranges::move(some, std::back_inserter(rows));
  return rows;
}

Result<> write_points(const Selection& selection, const std::filesystem::path& folder, int threads) {
  FETTLE_TRY(const std::vector<Subject> subjects, subjects_of(selection));
  const std::vector<Unit> units = units_of(subjects, selection);
  std::mutex mutex;
  Result<> written;
  for_each_space(units, selection, threads, [&](size_t i, const Target& target, const PointMaker& maker) {
    const Subject& subject = *units[i].subject;
    const std::filesystem::path place = folder / folder_of(maker.space, units[i].target->name, subject.name);
    std::error_code ignored;  // writing says what is wrong
    std::filesystem::create_directories(place, ignored);
    const int64_t points = points_of(subject);
    for (int64_t point = 0; point < (maker.points > 0 ? std::min(points, maker.points) : points); ++point) {
      auto done = write_point(maker.make(static_cast<uint64_t>(point)), target, place / fmt::format("{:03}", point));
      if (done) continue;
      const std::scoped_lock lock(mutex);
      written = std::move(done);
      return;
    }
  });
  return written;
}

}  // namespace fettle::digests
