// Running programs, on the thread that asks for it.

#include <algorithm>
#include <span>
#include <vector>

#include "pjrt/buffer.h"
#include "pjrt/entry.h"
#include "pjrt/event.h"
#include "pjrt/program.h"

namespace fettle::pjrt {
namespace {

/// What a call has in its hands, so that nothing is left behind where it ends early.
struct Held {
  Program& program;
  std::unique_ptr<ProgramCall> call;
  std::vector<StorageRef> arguments;
  ~Held() {
    if (call) program.give_back(std::move(call));
  }
};

PJRT_Error* wrong_argument(const Program& program, size_t i, const PJRT_Buffer& given) {
  return refuse(fmt::format("argument {} of '{}' is of type {}, and {} is given", i, program.interface.name,
                            program.interface.inputs[i]->to_string(), given.shape->to_string()));
}

// JAX gives empty arrays of truth values for tokens.
bool is_token(const ArrayShape& shape) {
  return shape.type == PJRT_Buffer_Type_TOKEN || (shape.type == PJRT_Buffer_Type_PRED && shape.n_bytes == 0);
}
bool fits(const ArrayShape& given, const ArrayShape& type) {
  if (type.type == PJRT_Buffer_Type_TOKEN) return is_token(given);
  return &given == &type || (given.type == type.type && given.dims == type.dims);
}

PJRT_Error* take_arguments(Held& held, PJRT_Buffer* const* arguments) {
  const std::vector<ShapeRef>& shapes = held.program.interface.inputs;
  held.arguments.reserve(shapes.size());
  size_t tensor = 0;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const PJRT_Buffer& given = *arguments[i];
    if (!fits(*given.shape, *shapes[i])) return wrong_argument(held.program, i, given);
    if (PJRT_Error* wrong = take_storage(given, held.arguments.emplace_back())) return wrong;
    if (shapes[i]->type == PJRT_Buffer_Type_TOKEN) continue;
    held.call->inputs[tensor++].data = held.arguments.back()->data;
  }
  return nullptr;
}

bool is_kept(const PJRT_ExecuteOptions& options, int64_t input) {
  const std::span kept(options.non_donatable_input_indices, options.num_non_donatable_input_indices);
  return std::ranges::find(kept, input) != kept.end();
}

/// Memory for a result: that of a donated argument where the program allows it, and nobody else has it.
StorageRef result_storage(Held& held, size_t output, PJRT_Buffer* const* arguments,
                          const PJRT_ExecuteOptions& options) {
  const ProgramInterface& interface = held.program.interface;
  const int64_t n_bytes = interface.outputs[output]->n_bytes;
  const int input = interface.written_over[output];
  if (input >= 0 && interface.inputs[static_cast<size_t>(input)]->n_bytes == n_bytes && !is_kept(options, input)) {
    Storage& storage = *held.arguments[static_cast<size_t>(input)];
    if (give_up_storage(*arguments[input], storage)) return StorageRef(share(&storage));
  }
  return make_storage(n_bytes);
}

/// What was donated is gone, but for those whose memory the caller wants to keep.
void drop_donated(const Program& program, PJRT_Buffer* const* arguments, const PJRT_ExecuteOptions& options) {
  for (size_t i = 0; i < program.interface.donated.size(); ++i)
    if (program.interface.donated[i] && !is_kept(options, static_cast<int64_t>(i))) delete_data(*arguments[i]);
}

PJRT_Error* execute(PJRT_LoadedExecutable_Execute_Args& args) {
  PJRT_LoadedExecutable& executable = *args.executable;
  Program& program = *executable.program;
  if (executable.is_deleted) return refuse(fmt::format("program '{}' was deleted", program.interface.name));
  if (args.num_devices != 1)
    return refuse(
        fmt::format("program '{}' runs on one device, and {} are asked for", program.interface.name, args.num_devices));
  const std::vector<ShapeRef>& results = program.interface.outputs;
  if (args.num_args != program.interface.inputs.size())
    return refuse(fmt::format("program '{}' takes {} arguments, and {} are given", program.interface.name,
                              program.interface.inputs.size(), args.num_args));
  if (args.options->num_send_ops > 0 || args.options->num_recv_ops > 0)
    return make_error(PJRT_Error_Code_UNIMPLEMENTED, "sends and receives of a running program");

  auto call = program.take_call();
  if (!call) return make_error(call.error());
  Held held{program, *std::move(call), {}};
  PJRT_Buffer* const* arguments = args.num_args == 0 ? nullptr : args.argument_lists[0];
  if (PJRT_Error* wrong = take_arguments(held, arguments)) return wrong;

  PJRT_Buffer** outputs = results.empty() ? nullptr : args.output_lists[0];
  size_t made = 0;
  const auto give_up = [&](PJRT_Error* error) {
    for (size_t i = 0; i < made; ++i) {
      delete_data(*outputs[i]);
      delete outputs[i];
      outputs[i] = nullptr;
    }
    return error;
  };
  size_t tensor = 0;
  for (const ShapeRef& shape : results) {
    StorageRef storage = result_storage(held, made, arguments, *args.options);
    if (storage == nullptr)
      return give_up(make_error(
          PJRT_Error_Code_RESOURCE_EXHAUSTED,
          fmt::format("memory ran out: a result of '{}' takes {} bytes", program.interface.name, shape->n_bytes)));
    if (shape->type != PJRT_Buffer_Type_TOKEN) {
      FettleTensor& output = held.call->outputs[tensor++];
      output.data = storage->data;
      output.capacity_bytes = std::max<int64_t>(shape->n_bytes, 1);
    }
    outputs[made] = make_buffer(executable.client, shape, std::move(storage));
    ++made;
  }
  const auto done = held.call->context.run_in_order(held.call->inputs, held.call->outputs);
  if (!done) return give_up(make_error(done.error()));
  drop_donated(program, arguments, *args.options);
  if (args.device_complete_events != nullptr) args.device_complete_events[0] = ready_event();
  return nullptr;
}

}  // namespace

void add_execution(PJRT_Api& api) { FETTLE_PJRT_ENTRY(api, PJRT_LoadedExecutable_Execute, execute); }

}  // namespace fettle::pjrt
