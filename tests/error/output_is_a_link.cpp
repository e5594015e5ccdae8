#include "support/support.h"

namespace fettle::testing_support {

TEST_F(Misuse, OfALinkTheTargetIsWritten) {
  write_model("model.onnx");
  std::filesystem::create_directory(path("versions"));
  std::filesystem::create_symlink("versions/1.so", path("out.so"));
  const Outcome compiled = fettle({"compile", path("model.onnx"), "-o", path("out.so")});
  EXPECT_EQ(compiled.status, 0) << compiled.err;
  EXPECT_TRUE(std::filesystem::is_symlink(path("out.so")));
  EXPECT_TRUE(std::filesystem::is_regular_file(path("versions/1.so")));
  EXPECT_TRUE(std::filesystem::is_regular_file(path("out.h")));
  EXPECT_EQ(fettle({"inspect", path("out.so")}).status, 0);
}

TEST_F(Misuse, LinksThatLeadInACircle) {
  write_model("model.onnx");
  std::filesystem::create_symlink("b.so", path("a.so"));
  std::filesystem::create_symlink("a.so", path("b.so"));
  expect_refused({"compile", path("model.onnx"), "-o", path("a.so")}, "E702", {"symbolic links"});
}

}  // namespace fettle::testing_support
