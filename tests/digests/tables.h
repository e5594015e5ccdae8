#pragma once
// Tables: the rows in files, one file a kind of space.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "tests/digests/rows.h"

namespace fettle::digests {

/// Rows by their keys.
using Table = std::map<std::string, Row>;

/// All rows of FOLDER/*.txt. Errors: E701 · E703 a line that is no row
Result<Table> read_tables(const std::filesystem::path& folder);
/// Rows that are selected are replaced by `rows`, the others kept. They stand in the order of their keys. Errors: those
/// of read_tables · E702
Result<> update_tables(const std::filesystem::path& folder, const Selection& selection, const std::vector<Row>& rows);

/// What is otherwise: "point 2 is another program". Selected rows that are recorded and not made, or made and not
/// recorded, are otherwise, too.
struct Difference {
  Row row;
  std::string what;
};
std::vector<Difference> compare(const Table& recorded, const Selection& selection, const std::vector<Row>& rows);

}  // namespace fettle::digests
