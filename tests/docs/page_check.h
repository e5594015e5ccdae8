#pragma once
// For tests: dumps compared with pages.

#include <gtest/gtest.h>

#include <string>

#include "page.h"

namespace fettle::docs {

/// The dump of that name on the page must be this one, but for empty lines at its end. FETTLE_UPDATE_GOLDEN=1: the page
/// gets it.
inline void check_dump(const std::string& page_path, const std::string& name, std::string dump) {
  while (dump.ends_with("\n\n")) dump.pop_back();
  if (!dump.empty() && !dump.ends_with('\n')) dump += '\n';
  ASSERT_FALSE(dump.empty()) << name;
  Page page = read_page(page_path);
  ASSERT_TRUE(page.dumps.count(name)) << page_path << " has no place for " << name;
  if (update_wanted()) rewrite_dump(page, name, dump);
  EXPECT_EQ(page.dumps[name], dump) << "FETTLE_UPDATE_GOLDEN=1 rewrites the page";
}

}  // namespace fettle::docs
