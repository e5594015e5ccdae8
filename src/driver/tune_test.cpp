#include "driver/tune.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

namespace fettle {
namespace {

/// Takes variables away from the environment, until the end.
class Without {
 public:
  explicit Without(std::initializer_list<const char*> names) {
    for (const char* name : names) {
      if (const char* value = std::getenv(name)) values_[name] = value;
      ::unsetenv(name);
    }
  }
  Without(const Without&) = delete;
  Without& operator=(const Without&) = delete;
  ~Without() {
    for (const auto& [name, value] : values_) ::setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  std::map<std::string, std::string> values_;
};

TEST(TuneModel, KeepsTheMicroKernelTableInTheCacheFolderOrNowhere) {
  const Target target = detect_host(1);
  const std::string there = micro_kernel_table_file(target, "/cache").string();
  EXPECT_TRUE(there.starts_with("/cache/micro-kernels-")) << there;
  const Without places({"FETTLE_CACHE", "XDG_CACHE_HOME", "HOME"});
  EXPECT_EQ(micro_kernel_table_file(target), "");
}

}  // namespace
}  // namespace fettle
