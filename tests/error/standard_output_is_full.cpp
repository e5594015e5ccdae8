#include <cstdlib>

#include "support/support.h"

namespace fettle::testing_support {

TEST_F(Misuse, WhatCannotBePrintedIsAnError) {
  write_model("model.onnx");
  for (const char* json : {"", " --json"}) {
    const std::string command = std::string(FETTLE_BINARY_DIR "/bin/fettle inspect ") + path("model.onnx") + json +
                                " > /dev/full 2> " + path("err");
    const int status = std::system(command.c_str());
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 1);
    EXPECT_TRUE(read("err").starts_with("fettle: E702: ")) << read("err");
    EXPECT_NE(read("err").find("standard output"), std::string::npos) << read("err");
  }
}

}  // namespace fettle::testing_support
