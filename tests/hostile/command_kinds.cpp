// Options of the program: sizes, limits, names.

#include "hostile/models.h"
#include "support/support.h"

namespace fettle::hostile {
namespace {

/// `fettle compile model.onnx -o out.so` with more arguments; "@" stands for the folder.
Kind command_kind(std::string name, std::vector<std::vector<std::string>> more, const char* command = "compile") {
  const int variants = static_cast<int>(more.size());
  return {std::move(name), variants,
          [command, more = std::move(more)](int variant, const std::filesystem::path& folder) -> Result<> {
            onnx::ModelProto model = small_model();
            auto* dim = model.mutable_graph()
                            ->mutable_input(0)
                            ->mutable_type()
                            ->mutable_tensor_type()
                            ->mutable_shape()
                            ->mutable_dim(0);
            dim->set_dim_param("N");
            model.mutable_graph()->mutable_output(0)->clear_type();
            write(folder / "model.onnx", model.SerializeAsString());
            std::vector<std::string> args = {command, (folder / "model.onnx").string()};
            if (std::string(command) == "compile") args.insert(args.end(), {"-o", (folder / "out.so").string()});
            for (std::string arg : more[static_cast<size_t>(variant)]) {
              if (const size_t at = arg.find('@'); at != std::string::npos) arg.replace(at, 1, folder.string());
              args.push_back(std::move(arg));
            }
            const testing_support::Outcome outcome = testing_support::fettle(args);
            if (outcome.status != 1 && outcome.status != 2) return {};  // taken, or ended by a signal
            if (std::filesystem::exists(folder / "out.so")) return {};
            return fail(outcome.status == 2 ? ErrorCode::E709 : ErrorCode::E704, outcome.err.substr(0, 300));
          }};
}

}  // namespace

std::vector<Kind> command_kinds() {
  return {
      command_kind(
          "a shape that is none",
          {{"--shape", "x"}, {"--shape", "x=-1,4"}, {"--shape", "x=99999999999999999999,4"}, {"--shape", "x=1,,4"}}),
      command_kind("a shape that does not fit",
                   {{"--shape", "x=2"}, {"--shape", "z=2,4"}, {"--shape", "x=2,5"}, {"--shape", "x=1099511627777,4"}}),
      command_kind("a shape that is huge",
                   {{"--shape", "x=1099511627776,4"}, {"--shape", "x=549755813888,4"}, {"--shape", "x=68719476736,4"}}),
      command_kind("a range that is none",
                   {{"--range", "N=5"}, {"--range", "N=9..1"}, {"--range", "N=1..5:0"}, {"--range", "M=1..2"}}),
      command_kind("a limit that is none", {{"--limit", "rank"},
                                            {"--limit", "rank=-1"},
                                            {"--limit", "ranks=3"},
                                            {"--limit", "rank=99999999999999999999"}}),
      command_kind(
          "a limit that the model exceeds",
          {{"--limit", "rank=1"}, {"--limit", "nodes=1"}, {"--limit", "constant-bytes=47"}, {"--limit", "inputs=0"}}),
      command_kind("a pass that is none", {{"--no-pass", "x"}, {"--no-pass", "infer_shapes"}, {"--no-pass", ""}}),
      command_kind("threads that are none", {{"--threads", "0"}, {"--threads", "-1"}, {"--threads", "1000000000000"}}),
      command_kind("a state that is none", {{"--state", "x"}, {"--state", "x=z"}, {"--state", "a=b"}}),
      command_kind("an input that is none",
                   {{"--input", "x"}, {"--input", "x=@/none.npy"}, {"--input", "x=@"}, {"--input", "x=@/model.onnx"}},
                   "run"),
  };
}

}  // namespace fettle::hostile
