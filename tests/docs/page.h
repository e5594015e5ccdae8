#pragma once
// Documentation pages with dumps in them, each behind a marker, so that they can be compared with what is true and
// rewritten:
//   <!-- dump: lowered -->
//   ```
//   lowered func …
//   ```

#include <map>
#include <string>
#include <vector>

namespace fettle::docs {

/// Name → text between the fences, in the page's order of names.
struct Page {
  std::string path;
  std::string text;
  std::map<std::string, std::string> dumps;
  std::vector<std::string> problems;  // a marker without fences, a name twice
};

/// `path` from the root of the source tree.
Page read_page(const std::string& path);
/// Writes the page with one dump replaced.
void rewrite_dump(Page& page, const std::string& name, const std::string& dump);

/// The lines between "// [name]" and "// [end]" of a source file, without their common indentation.
std::string source_region(const std::string& path, const std::string& name);

/// Of an assembly listing in Intel syntax: the shortest loop with a fused multiply-add in it, from its label to the
/// jump back, without comments and directives. Empty if there is none.
std::string hot_loop(const std::string& assembly);

/// Whether FETTLE_UPDATE_GOLDEN=1 asks for pages to be rewritten.
bool update_wanted();

}  // namespace fettle::docs
