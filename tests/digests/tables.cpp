#include "tests/digests/tables.h"

#include <fmt/format.h>

#include <fstream>
#include <set>

namespace fettle::digests {
namespace {

constexpr const char* kHeader =
    "# target, space, points, of these refused; the first points; lowered code of the first that is legal; programs of "
    "all\n"
    "# points; steps of all points; task. README.md says how to read and to update this.\n";

/// "template" of "template/conv2d".
std::string kind_of(const std::string& space) { return space.substr(0, space.find('/')); }

}  // namespace

Result<Table> read_tables(const std::filesystem::path& folder) {
  Table table;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".txt" || entry.path().filename() == "CMakeLists.txt") continue;
    std::ifstream file(entry.path());
    int number = 0;
    for (std::string line; std::getline(file, line);) {
      ++number;
      if (line.empty() || line.front() == '#') continue;
      std::optional<Row> row = parse_row(line);
      if (!row) return fail(ErrorCode::E703, fmt::format("line {} is no row", number), entry.path().string());
      std::string key = row->key();
      table.insert_or_assign(std::move(key), std::move(*row));
    }
  }
  if (error) return fail(ErrorCode::E701, error.message(), folder.string());
  return table;
}

Result<> update_tables(const std::filesystem::path& folder, const Selection& selection, const std::vector<Row>& rows) {
  FETTLE_TRY(Table kept, read_tables(folder));
  std::erase_if(kept, [&](const auto& known) { return selection.has(known.second); });
  for (const Row& row : rows) kept.insert_or_assign(row.key(), row);
  std::map<std::string, std::string> texts;
  for (const auto& [key, row] : kept)
    texts.try_emplace(kind_of(row.space), kHeader).first->second += to_line(row) + "\n";
  for (const auto& [kind, text] : texts) {
    const std::filesystem::path path = folder / (kind + ".txt"), part = folder / (kind + ".part");
    std::ofstream file(part, std::ios::binary);
    file << text;
    if (!file.flush()) return fail(ErrorCode::E702, "it cannot be written", part.string());
    file.close();
    std::error_code error;
    std::filesystem::rename(part, path, error);
    if (error) return fail(ErrorCode::E702, error.message(), path.string());
  }
  return {};
}

std::vector<Difference> compare(const Table& recorded, const Selection& selection, const std::vector<Row>& rows) {
  std::vector<Difference> result;
  std::set<std::string> made;
  for (const Row& row : rows) {
    made.insert(row.key());
    const auto known = recorded.find(row.key());
    if (known == recorded.end()) {
      result.push_back({row, "it is not recorded"});
      continue;
    }
    for (std::string& what : differences(known->second, row)) result.push_back({row, std::move(what)});
  }
  for (const auto& [key, row] : recorded)
    if (selection.has(row) && !made.contains(key)) result.push_back({row, "it is recorded, and not made"});
  return result;
}

}  // namespace fettle::digests
