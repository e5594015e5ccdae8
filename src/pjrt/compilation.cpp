// Programs are made: compiled, or loaded from what a program was serialised to.

#include "pjrt/entry.h"
#include "pjrt/program.h"

namespace fettle::pjrt {
namespace {

PJRT_Error* compile(PJRT_Client_Compile_Args& args) {
  const std::string_view format(args.program->format, args.program->format_size);
  if (format != "mlir")
    return make_error(PJRT_Error_Code_UNIMPLEMENTED,
                      fmt::format("programs of format '{}': Fettle reads StableHLO, which is 'mlir'", format));
  auto program = compile_program(*args.client, {args.program->code, args.program->code_size},
                                 {args.compile_options, args.compile_options_size});
  if (!program) return make_error(program.error());
  args.executable = new PJRT_LoadedExecutable{args.client, *std::move(program), {}, {}};
  return nullptr;
}

PJRT_Error* deserialize(PJRT_Executable_DeserializeAndLoad_Args& args) {
  auto program = load_program(*args.client, {args.serialized_executable, args.serialized_executable_size});
  if (!program) return make_error(program.error());
  args.loaded_executable = new PJRT_LoadedExecutable{args.client, *std::move(program), {}, {}};
  return nullptr;
}

}  // namespace

void add_compilation(PJRT_Api& api) {
  FETTLE_PJRT_ENTRY(api, PJRT_Client_Compile, compile);
  FETTLE_PJRT_ENTRY(api, PJRT_Executable_DeserializeAndLoad, deserialize);
}

}  // namespace fettle::pjrt
