// Contexts of one compiled model at once, each on a thread of its own, by an instrumented run-time system.
//   contexts-under-tsan MODEL.so CALLS.bin...
// Each file has the calls of one context, by the one input that is no state, f32: i64 rank, i64 extents, the elements.
// CALLS.bin.out gets the elements of the one output that is no state, call by call; CALLS.bin.NAME those of each state.
//   contexts-under-tsan MODEL.so --race
// uses a context as no program may; the sanitizer shall tell.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "rt/model.h"
#include "rt/team.h"

namespace {

[[noreturn]] void give_up(const char* what, const char* why) {
  std::fprintf(stderr, "%s: %s\n", what, why);
  std::_Exit(1);
}

int32_t team_size(void* team) { return fettle_team_size(static_cast<FettleTeam*>(team)); }
void team_for(void* team, int64_t n, FettleBody body, void* closure) {
  fettle_parallel_for(static_cast<FettleTeam*>(team), n, body, closure);
}

/// The input or output that is no state.
int32_t own_tensor(const FettleModelInfo& info, bool is_output) {
  for (int32_t i = 0; i < (is_output ? info.n_outputs : info.n_inputs); ++i) {
    bool is_state = false;
    for (int32_t s = 0; s < info.n_states; ++s)
      is_state = is_state || (is_output ? info.states[s].output : info.states[s].input) == i;
    if (!is_state) return i;
  }
  give_up("the model", "all of its tensors are states");
}

struct Call {
  std::vector<int64_t> shape;
  std::vector<float> elems;
};

std::vector<Call> read_calls(const char* path) {
  std::FILE* file = std::fopen(path, "rb");
  if (file == nullptr) give_up(path, "cannot be read");
  std::vector<Call> calls;
  for (int64_t rank = 0; std::fread(&rank, sizeof rank, 1, file) == 1;) {
    Call call;
    call.shape.resize(static_cast<size_t>(rank));
    size_t count = std::fread(call.shape.data(), sizeof(int64_t), call.shape.size(), file) == call.shape.size() ? 1 : 0;
    for (const int64_t extent : call.shape) count *= static_cast<size_t>(extent);
    call.elems.resize(count);
    if (count == 0 || std::fread(call.elems.data(), sizeof(float), count, file) != count) give_up(path, "ends early");
    calls.push_back(std::move(call));
  }
  std::fclose(file);
  return calls;
}

std::FILE* open_file(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) give_up(path.c_str(), "cannot be written");
  return file;
}
void close_file(std::FILE* file) {
  if (std::fclose(file) != 0) give_up("a file", "cannot be written");
}

/// Densely; a state has strides.
void write_elems(std::FILE* file, const FettleTensor& tensor) {
  if (tensor.dtype != FETTLE_F32) give_up(tensor.name, "is not f32");
  std::vector<int64_t> dense(static_cast<size_t>(tensor.rank), 1);
  for (size_t d = dense.size(); d-- > 1;) dense[d - 1] = dense[d] * tensor.shape[d];
  const int64_t* strides = tensor.strides != nullptr ? tensor.strides : dense.data();
  const int64_t count = fettle_tensor_bytes(&tensor) / static_cast<int64_t>(sizeof(float));
  for (int64_t i = 0; i < count; ++i) {
    int64_t place = 0;
    for (size_t d = 0; d < dense.size(); ++d) place += i / dense[d] % tensor.shape[d] * strides[d];
    if (std::fwrite(static_cast<const float*>(tensor.data) + place, sizeof(float), 1, file) != 1)
      give_up(tensor.name, "cannot be written");
  }
}

/// A context and its tensors, of which one is given and one is taken.
class Caller {
 public:
  Caller(const FettleModelInfo& info, FettleModel* model)
      : info_(info),
        context_(fettle_rt_create_context(model)),
        x_(own_tensor(info, false)),
        y_(own_tensor(info, true)) {
    if (context_ == nullptr) give_up("a context", fettle_rt_error(nullptr));
  }
  ~Caller() { fettle_rt_destroy_context(context_); }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  FettleContext* context() const { return context_; }

  /// in_background: begun, and awaited by this thread.
  int32_t run(const Call& call, bool in_background) {
    inputs_.assign(info_.inputs, info_.inputs + info_.n_inputs);
    outputs_.assign(info_.outputs, info_.outputs + info_.n_outputs);
    FettleTensor& x = inputs_[static_cast<size_t>(x_)];
    x.shape = call.shape.data();
    x.data = const_cast<float*>(call.elems.data());
    if (!in_background) return fettle_rt_run(context_, inputs_.data(), outputs_.data());
    const int32_t begun = fettle_rt_begin(context_, inputs_.data(), outputs_.data());
    return begun == FETTLE_OK ? fettle_rt_wait(context_) : begun;
  }
  const FettleTensor& output() const { return outputs_[static_cast<size_t>(y_)]; }

  void write_states(const std::string& path) {
    for (int32_t s = 0; s < info_.n_states; ++s) {
      FettleTensor state = *info_.states[s].tensor;
      if (fettle_rt_get_state(context_, state.name, &state) != FETTLE_OK)
        give_up(state.name, fettle_rt_error(context_));
      std::FILE* file = open_file(path + '.' + state.name);
      write_elems(file, state);
      close_file(file);
    }
  }

 private:
  const FettleModelInfo& info_;
  FettleContext* context_;
  int32_t x_, y_;
  std::vector<FettleTensor> inputs_, outputs_;
};

void run_all(const FettleModelInfo& info, FettleModel* model, const char* path) {
  const std::vector<Call> calls = read_calls(path);
  std::FILE* file = open_file(std::string(path) + ".out");
  Caller caller(info, model);
  bool in_background = false;
  for (const Call& call : calls) {
    if (caller.run(call, in_background) != FETTLE_OK) give_up(path, fettle_rt_error(caller.context()));
    write_elems(file, caller.output());
    in_background = !in_background;
  }
  close_file(file);
  caller.write_states(path);
}

/// One thread reads why a call failed while another one makes calls that fail.
void race(const FettleModelInfo& info, FettleModel* model) {
  Caller caller(info, model);
  const Call wrong{{1}, {0}};
  caller.run(wrong, false);
  size_t read = 0;
  std::thread reader([&] {
    for (int i = 0; i < 1000; ++i) read += std::strlen(fettle_rt_error(caller.context()));
  });
  for (int i = 0; i < 1000; ++i) caller.run(wrong, false);
  reader.join();
  std::printf("%zu\n", read);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) give_up("usage", "contexts-under-tsan MODEL.so CALLS.bin... | --race");
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) give_up(argv[1], dlerror());
  const auto* info = static_cast<const FettleModelInfo*>(dlsym(library, "fettle_artefact"));
  if (info == nullptr) give_up(argv[1], "is no compiled model");
  // The library's kernels ask a team of the host program's: its own one would not be instrumented.
  const FettleTeamOptions two{.threads = 2, .pin = 0, .spin_us = 0};
  FettleTeam* team = fettle_team_create(&two);
  const FettleHostTeam host{
      .struct_bytes = sizeof host, .reserved = 0, .user = team, .size = team_size, .parallel_for = team_for};
  FettleOptions options{};
  options.struct_bytes = sizeof options;
  options.host_team = &host;
  FettleModel* model = fettle_rt_open(info, FETTLE_ABI_VERSION, &options);
  if (model == nullptr) give_up(argv[1], fettle_rt_error(nullptr));
  if (std::strcmp(argv[2], "--race") == 0) {
    race(*info, model);
  } else {
    std::vector<std::thread> threads;
    for (int i = 2; i < argc; ++i) threads.emplace_back(run_all, std::cref(*info), model, argv[i]);
    for (std::thread& thread : threads) thread.join();
  }
  fettle_rt_close(model);
  fettle_team_destroy(team);
  return 0;
}
