#include "analysis/affine/isl_context.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <isl/ctx.h>

#include <string>

namespace fettle {
namespace {

// LLVM's shared library exports another version of isl: programs must call the one whose headers they see.
TEST(IslContext, IsOfTheLibraryOfItsHeaders) {
  Dl_info info{};
  ASSERT_NE(dladdr(reinterpret_cast<const void*>(&isl_ctx_alloc), &info), 0);
  EXPECT_NE(std::string(info.dli_fname).find("libisl"), std::string::npos) << info.dli_fname;
}

}  // namespace
}  // namespace fettle
