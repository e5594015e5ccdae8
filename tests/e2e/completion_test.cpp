// `fettle completion`: what bash makes of the script.

#include <cstdio>
#include <fstream>

#include "support/support.h"

namespace fettle::testing_support {
namespace {

class Completion : public Misuse {
 protected:
  /// What bash offers for these words, the last of which is being written.
  std::string offered(const std::string& words) {
    std::ofstream(path("script")) << fettle({"completion", "bash"}).out;
    std::ofstream(path("try"))
        << "source " << path("script") << "\nCOMP_WORDS=(" << words
        << ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_fettle\n(IFS=' '; echo \"${COMPREPLY[*]}\")\n";
    FILE* pipe = popen(("bash " + path("try") + " 2>&1").c_str(), "r");
    std::string out;
    for (int c = 0; (c = fgetc(pipe)) != EOF;) out += static_cast<char>(c);
    pclose(pipe);
    return out;
  }
};

TEST_F(Completion, OffersCommandsOptionsAndValues) {
  EXPECT_EQ(offered("fettle comp"), "compile completion\n");
  EXPECT_EQ(offered("fettle db e"), "export\n");
  EXPECT_EQ(offered("fettle cache ''"), "ls clear path\n");
  EXPECT_EQ(offered("fettle tune m.onnx --gen"), "--generation\n");
  EXPECT_EQ(offered("fettle tune m.onnx --generation an"), "ansor\n");
  EXPECT_EQ(offered("fettle completion f"), "fish\n");
  EXPECT_EQ(offered("fettle --ver"), "--version\n");
  EXPECT_EQ(offered("fettle puzzle soft"), "softmax\n");
  EXPECT_EQ(offered("fettle explain E80"), "E801 E802 E803 E804 E805\n");
  EXPECT_EQ(offered("fettle compile m.onnx --no-pass fold_c"), "fold_constants\n");
}

TEST_F(Completion, OffersFiles) {
  std::ofstream(path("my model.onnx")) << "";
  const std::string begin = "'" + path("my") + "'";
  for (const char* words : {"fettle run ", "fettle explain ", "fettle tune m.onnx --db ", "fettle compile -o "})
    EXPECT_EQ(offered(words + begin), path("my model.onnx") + "\n") << words;
}

TEST_F(Completion, KnowsThreeShells) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Outcome outcome = fettle({"completion", shell});
    EXPECT_EQ(outcome.status, 0);
    EXPECT_NE(outcome.out.find("generation"), std::string::npos) << shell;
  }
  EXPECT_EQ(fettle({"completion", "tcsh"}).status, 2);
}

}  // namespace
}  // namespace fettle::testing_support
