#include <gmock/gmock.h>

#include <set>

#include "pjrt/compile_options.h"
#include "pjrt/testing.h"
#include "runtime/host_calls.h"

namespace fettle::pjrt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Pjrt = PjrtTest;

constexpr const char* kAdd = R"("builtin.module"() <{sym_name = "jit_add"}> ({
  "func.func"() <{function_type = (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>),
                  arg_attrs = [{jax.buffer_donor = true}, {}], sym_name = "main"}> ({
  ^bb0(%a: tensor<3xf32>, %b: tensor<3xf32>):
    %0 = "stablehlo.add"(%a, %b) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %1 = "stablehlo.multiply"(%0, %b) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    "func.return"(%0, %1) : (tensor<3xf32>, tensor<3xf32>) -> ()
  }) : () -> ()
}) : () -> ()
)";

TEST_F(Pjrt, EverySlotIsThere) {
  const auto* slots = reinterpret_cast<void* const*>(&api.PJRT_Error_Destroy);
  const size_t count = (PJRT_Api_STRUCT_SIZE - offsetof(PJRT_Api, PJRT_Error_Destroy)) / sizeof(void*);
  EXPECT_GT(count, 120U);
  for (size_t i = 0; i < count; ++i) EXPECT_NE(slots[i], nullptr) << "slot " << i;
}

TEST_F(Pjrt, WhatIsMissingSaysItsName) {
  auto args = sized<PJRT_Client_DmaMap_Args>();
  const Failure failure = taken(api.PJRT_Client_DmaMap(&args));
  EXPECT_EQ(failure.code, PJRT_Error_Code_UNIMPLEMENTED);
  EXPECT_THAT(failure.message, HasSubstr("PJRT_Client_DmaMap"));
}

TEST_F(Pjrt, StructsOfOlderCallersAreRefused) {
  auto args = sized<PJRT_Client_PlatformName_Args>();
  args.client = client;
  args.struct_size = 8;
  const Failure failure = taken(api.PJRT_Client_PlatformName(&args));
  EXPECT_EQ(failure.code, PJRT_Error_Code_INVALID_ARGUMENT);
  EXPECT_THAT(failure.message, HasSubstr("PJRT_Client_PlatformName"));
}

TEST_F(Pjrt, OptionsAreChecked) {
  PJRT_NamedValue option = sized<PJRT_NamedValue>();
  option.name = "threads";
  option.name_size = 7;
  option.type = PJRT_NamedValue_kInt64;
  option.int64_value = -1;
  auto args = sized<PJRT_Client_Create_Args>();
  args.create_options = &option;
  args.num_options = 1;
  EXPECT_THAT(taken(api.PJRT_Client_Create(&args)).message, HasSubstr("'threads' is -1"));
  option.name = "nothing";
  EXPECT_THAT(taken(api.PJRT_Client_Create(&args)).message, HasSubstr("no option 'nothing'"));
}

TEST_F(Pjrt, ArraysComeBack) {
  const Buffer dense = buffer_of<float>({1, 2, 3, 4, 5, 6}, PJRT_Buffer_Type_F32, {2, 3});
  EXPECT_THAT(content_of<float>(dense.get()), ElementsAre(1, 2, 3, 4, 5, 6));
  // A transposed array, and one backwards.
  const Buffer turned = buffer_of<float>({1, 2, 3, 4, 5, 6}, PJRT_Buffer_Type_F32, {3, 2},
                                         PJRT_HostBufferSemantics_kImmutableZeroCopy, nullptr, {4, 12});
  EXPECT_THAT(content_of<float>(turned.get()), ElementsAre(1, 4, 2, 5, 3, 6));
  const Buffer small = buffer_of<uint8_t>({0x0f, 0xf7, 0x08}, PJRT_Buffer_Type_S4, {3});
  EXPECT_THAT(content_of<uint8_t>(small.get()), ElementsAre(0xff, 0x07, 0xf8));
  const Buffer empty = buffer_of<float>({}, PJRT_Buffer_Type_F32, {0, 3});
  EXPECT_TRUE(content_of<float>(empty.get()).empty());
}

TEST_F(Pjrt, MemoryIsSharedUntilTheBufferEnds) {
  std::vector<int32_t> data{1, 2, 3};
  Event done;
  Buffer buffer = buffer_of(data, PJRT_Buffer_Type_S32, {3}, PJRT_HostBufferSemantics_kImmutableZeroCopy, &done);
  auto pointer = sized<PJRT_Buffer_UnsafePointer_Args>();
  pointer.buffer = buffer.get();
  FETTLE_PJRT_OK(api.PJRT_Buffer_UnsafePointer(&pointer));
  EXPECT_EQ(pointer.buffer_pointer, reinterpret_cast<uintptr_t>(data.data()));
  int called = 0;
  auto on_ready = sized<PJRT_Event_OnReady_Args>();
  on_ready.event = done.get();
  on_ready.user_arg = &called;
  on_ready.callback = [](PJRT_Error* error, void* user) {
    EXPECT_EQ(error, nullptr);
    ++*static_cast<int*>(user);
  };
  FETTLE_PJRT_OK(api.PJRT_Event_OnReady(&on_ready));
  done.reset();  // as JAX does: the callback outlives its handle
  EXPECT_EQ(called, 0);
  buffer.reset();
  EXPECT_EQ(called, 1);
}

TEST_F(Pjrt, ExternalReferencesKeepMemory) {
  const Buffer buffer = buffer_of<int32_t>({7}, PJRT_Buffer_Type_S32, {1});
  auto pointer = sized<PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args>();
  pointer.buffer = buffer.get();
  FETTLE_PJRT_OK(api.PJRT_Buffer_OpaqueDeviceMemoryDataPointer(&pointer));
  auto more = sized<PJRT_Buffer_IncreaseExternalReferenceCount_Args>();
  more.buffer = buffer.get();
  FETTLE_PJRT_OK(api.PJRT_Buffer_IncreaseExternalReferenceCount(&more));
  auto deleted = sized<PJRT_Buffer_Delete_Args>();
  deleted.buffer = buffer.get();
  FETTLE_PJRT_OK(api.PJRT_Buffer_Delete(&deleted));
  EXPECT_TRUE(is_deleted(buffer.get()));
  EXPECT_EQ(*static_cast<const int32_t*>(pointer.device_memory_ptr), 7);
  auto less = sized<PJRT_Buffer_DecreaseExternalReferenceCount_Args>();
  less.buffer = buffer.get();
  FETTLE_PJRT_OK(api.PJRT_Buffer_DecreaseExternalReferenceCount(&less));
  EXPECT_EQ(taken(api.PJRT_Buffer_DecreaseExternalReferenceCount(&less)).code, PJRT_Error_Code_FAILED_PRECONDITION);
}

TEST_F(Pjrt, EventsHappenOnce) {
  auto created = sized<PJRT_Event_Create_Args>();
  FETTLE_PJRT_OK(api.PJRT_Event_Create(&created));
  const Event event(created.event);
  auto ready = sized<PJRT_Event_IsReady_Args>();
  ready.event = event.get();
  FETTLE_PJRT_OK(api.PJRT_Event_IsReady(&ready));
  EXPECT_FALSE(ready.is_ready);
  auto set = sized<PJRT_Event_Set_Args>();
  set.event = event.get();
  set.error_code = PJRT_Error_Code_ABORTED;
  set.error_message = "gone";
  set.error_message_size = 4;
  FETTLE_PJRT_OK(api.PJRT_Event_Set(&set));
  EXPECT_EQ(taken(api.PJRT_Event_Set(&set)).code, PJRT_Error_Code_FAILED_PRECONDITION);
  auto await = sized<PJRT_Event_Await_Args>();
  await.event = event.get();
  const Failure failure = taken(api.PJRT_Event_Await(&await));
  EXPECT_EQ(failure.code, PJRT_Error_Code_ABORTED);
  EXPECT_EQ(failure.message, "gone");
}

TEST(PjrtOptions, ReplicasArePartOfTheMessage) {
  // executable_build_options (3) {device_ordinal (1): 0, num_replicas (4): 2, num_partitions (5): 1}
  const std::string bytes("\x1a\x06\x08\x00\x20\x02\x28\x01", 8);
  const auto options = read_compile_options(bytes);
  ASSERT_TRUE(options);
  EXPECT_EQ(options->replicas, 2);
  EXPECT_EQ(options->partitions, 1);
  EXPECT_FALSE(read_compile_options(std::string_view(bytes).substr(0, 5)));
}

TEST_F(Pjrt, ProgramsRun) {
  Program program;
  FETTLE_PJRT_OK(compile(kAdd, program));
  const Buffer a = buffer_of<float>({1, 2, 3}, PJRT_Buffer_Type_F32, {3});
  const Buffer b = buffer_of<float>({10, 20, 30}, PJRT_Buffer_Type_F32, {3});
  std::vector<Buffer> outputs;
  FETTLE_PJRT_OK(run(program.get(), {a.get(), b.get()}, 2, outputs, {0}));
  EXPECT_THAT(content_of<float>(outputs[0].get()), ElementsAre(11, 22, 33));
  EXPECT_THAT(content_of<float>(outputs[1].get()), ElementsAre(110, 440, 990));
  EXPECT_FALSE(is_deleted(a.get()));  // it was to be kept
  FETTLE_PJRT_OK(run(program.get(), {a.get(), b.get()}, 2, outputs));
  EXPECT_TRUE(is_deleted(a.get()));  // it was donated
  const Failure again = taken(run(program.get(), {a.get(), b.get()}, 2, outputs));
  EXPECT_EQ(again.code, PJRT_Error_Code_INVALID_ARGUMENT);
  EXPECT_THAT(again.message, HasSubstr("donated"));
  const Failure wrong =
      taken(run(program.get(), {b.get(), buffer_of<float>({1}, PJRT_Buffer_Type_F32, {1}).get()}, 2, outputs));
  EXPECT_THAT(wrong.message, HasSubstr("argument 1 of 'jit_add' is of type F32[3], and F32[1] is given"));
}

// A result is written over the argument, unless somebody else has its memory.
TEST_F(Pjrt, DonatedMemoryIsWrittenOver) {
  Program program;
  FETTLE_PJRT_OK(compile(kAdd, program));
  const Buffer b = buffer_of<float>({10, 20, 30}, PJRT_Buffer_Type_F32, {3});
  const auto address_of_sum = [&](PJRT_Buffer* a, const std::vector<int64_t>& kept = {}) {
    std::vector<Buffer> outputs;
    EXPECT_EQ(taken(run(program.get(), {a, b.get()}, 2, outputs, kept)).code, PJRT_Error_Code_OK);
    EXPECT_THAT(content_of<float>(outputs[0].get()), ElementsAre(11, 22, 33));
    EXPECT_THAT(content_of<float>(outputs[1].get()), ElementsAre(110, 440, 990));
    return address_of(outputs[0].get());
  };
  const auto make = [&] { return buffer_of<float>({1, 2, 3}, PJRT_Buffer_Type_F32, {3}); };
  const Buffer donated = make(), kept = make(), viewed = make();
  const uintptr_t its_own = address_of(donated.get());
  EXPECT_EQ(address_of_sum(donated.get()), its_own);
  EXPECT_TRUE(is_deleted(donated.get()));

  const uintptr_t of_kept = address_of(kept.get());
  EXPECT_NE(address_of_sum(kept.get(), {0}), of_kept);
  EXPECT_THAT(content_of<float>(kept.get()), ElementsAre(1, 2, 3));

  auto look = sized<PJRT_Buffer_IncreaseExternalReferenceCount_Args>();
  look.buffer = viewed.get();
  FETTLE_PJRT_OK(api.PJRT_Buffer_IncreaseExternalReferenceCount(&look));
  const uintptr_t of_viewed = address_of(viewed.get());
  EXPECT_NE(address_of_sum(viewed.get()), of_viewed);
  EXPECT_THAT(std::vector<float>(reinterpret_cast<float*>(of_viewed), reinterpret_cast<float*>(of_viewed) + 3),
              ElementsAre(1, 2, 3));
  auto end = sized<PJRT_Buffer_DecreaseExternalReferenceCount_Args>();
  end.buffer = viewed.get();
  FETTLE_PJRT_OK(api.PJRT_Buffer_DecreaseExternalReferenceCount(&end));

  // Given twice, it is read where it would be written.
  const Buffer twice = make();
  std::vector<Buffer> outputs;
  FETTLE_PJRT_OK(run(program.get(), {twice.get(), twice.get()}, 2, outputs));
  EXPECT_THAT(content_of<float>(outputs[1].get()), ElementsAre(2, 8, 18));
}

TEST_F(Pjrt, ProgramsAreKept) {
  Program program;
  FETTLE_PJRT_OK(compile(kAdd, program));
  auto get = sized<PJRT_LoadedExecutable_GetExecutable_Args>();
  get.loaded_executable = program.get();
  FETTLE_PJRT_OK(api.PJRT_LoadedExecutable_GetExecutable(&get));
  const std::unique_ptr<PJRT_Executable, Destroy> executable(get.executable);
  auto serialize = sized<PJRT_Executable_Serialize_Args>();
  serialize.executable = executable.get();
  FETTLE_PJRT_OK(api.PJRT_Executable_Serialize(&serialize));
  const std::string bytes(serialize.serialized_bytes, serialize.serialized_bytes_size);
  serialize.serialized_executable_deleter(serialize.serialized_executable);

  auto load = sized<PJRT_Executable_DeserializeAndLoad_Args>();
  load.client = client;
  load.serialized_executable = bytes.data();
  load.serialized_executable_size = bytes.size();
  FETTLE_PJRT_OK(api.PJRT_Executable_DeserializeAndLoad(&load));
  const Program loaded(load.loaded_executable);
  const Buffer a = buffer_of<float>({1, 2, 3}, PJRT_Buffer_Type_F32, {3});
  std::vector<Buffer> outputs;
  FETTLE_PJRT_OK(run(loaded.get(), {a.get(), a.get()}, 2, outputs, {0}));
  EXPECT_THAT(content_of<float>(outputs[1].get()), ElementsAre(2, 8, 18));
  const Buffer donated = buffer_of<float>({1, 2, 3}, PJRT_Buffer_Type_F32, {3});
  const uintptr_t its_own = address_of(donated.get());
  FETTLE_PJRT_OK(run(loaded.get(), {donated.get(), a.get()}, 2, outputs));
  EXPECT_EQ(address_of(outputs[2].get()), its_own);  // that it may be written over is kept, too

  for (const size_t size : {size_t{0}, size_t{10}, bytes.size() / 2, bytes.size() - 1}) {
    load.serialized_executable_size = size;
    EXPECT_NE(taken(api.PJRT_Executable_DeserializeAndLoad(&load)).code, PJRT_Error_Code_OK) << size;
  }
  std::string changed = bytes;
  changed[changed.size() / 2] ^= 1;
  load.serialized_executable = changed.data();
  load.serialized_executable_size = changed.size();
  EXPECT_THAT(taken(api.PJRT_Executable_DeserializeAndLoad(&load)).message, HasSubstr("damaged"));
}

TEST_F(Pjrt, WhatCannotRunIsRefused) {
  Program program;
  const Failure devices = taken(compile(kAdd, program, std::string("\x1a\x02\x20\x02", 4)));
  EXPECT_EQ(devices.code, PJRT_Error_Code_UNIMPLEMENTED);
  EXPECT_THAT(devices.message, HasSubstr("2 replicas"));
  std::string open = kAdd;
  for (size_t at = 0; (at = open.find("<3xf32>", at)) != std::string::npos;) open.replace(at, 7, "<?xf32>");
  EXPECT_THAT(taken(compile(open, program)).message, HasSubstr("open extents"));
  EXPECT_NE(taken(compile("no program", program)).code, PJRT_Error_Code_OK);
}

constexpr const char* kCall = R"("builtin.module"() ({
  "func.func"() <{function_type = (tensor<2xf32>, tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>, sym_name = "main"}> ({
  ^bb0(%a: tensor<2xf32>, %b: tensor<2xcomplex<f32>>):
    %0 = "stablehlo.custom_call"(%a, %b) <{call_target_name = "fettle.host_call", backend_config = "scale by parts",
           api_version = 2 : i32}> : (tensor<2xf32>, tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
    "func.return"(%0) : (tensor<2xcomplex<f32>>) -> ()
  }) : () -> ()
}) : () -> ()
)";

/// (a, re, im) → (a * re, a * im)
int32_t scale(void* user, const FettleHostCall* call) {
  if (std::string(call->name) != "scale" || std::string(call->config) != "by parts") return FETTLE_INVALID_ARGUMENT;
  if (call->n_inputs != 3 || call->n_outputs != 2) return FETTLE_INVALID_ARGUMENT;
  if (*static_cast<const bool*>(user)) {
    std::strncpy(call->error, "not now", static_cast<size_t>(call->error_bytes));
    return FETTLE_KERNEL_FAILED;
  }
  for (int part = 0; part < 2; ++part)
    for (int64_t i = 0; i < call->outputs[part].shape[0]; ++i)
      static_cast<float*>(call->outputs[part].data)[i] = static_cast<const float*>(call->inputs[0].data)[i] *
                                                         static_cast<const float*>(call->inputs[part + 1].data)[i];
  return FETTLE_OK;
}

constexpr const char* kRandom = R"(
module @jit_random {
  func.func public @main(%a: tensor<f32>, %b: tensor<f32>) -> tensor<8xf32> {
    %shape = stablehlo.constant dense<8> : tensor<1xi64>
    %0 = stablehlo.rng %a, %b, %shape, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
)";

TEST_F(Pjrt, RandomNumbersAreOthersInEachCallAndProgram) {
  const Buffer a = buffer_of<float>({1}, PJRT_Buffer_Type_F32, {}), b = buffer_of<float>({3}, PJRT_Buffer_Type_F32, {});
  std::set<std::vector<float>> seen;
  for (int k = 0; k < 2; ++k) {
    Program program;
    FETTLE_PJRT_OK(compile(kRandom, program));
    for (int call = 0; call < 3; ++call) {
      std::vector<Buffer> outputs;
      FETTLE_PJRT_OK(run(program.get(), {a.get(), b.get()}, 1, outputs));
      const std::vector<float> numbers = content_of<float>(outputs[0].get());
      EXPECT_THAT(numbers, testing::Each(testing::AllOf(testing::Ge(1), testing::Lt(3))));
      seen.insert(numbers);
    }
  }
  EXPECT_EQ(seen.size(), 6u);
}

TEST_F(Pjrt, ProgramsCallTheHostByName) {
  Program program;
  FETTLE_PJRT_OK(compile(kCall, program));
  const Buffer a = buffer_of<float>({2, 3}, PJRT_Buffer_Type_F32, {2});
  const Buffer b = buffer_of<float>({1, 10, 5, 7}, PJRT_Buffer_Type_C64, {2});
  std::vector<Buffer> outputs;
  const Failure nobody = taken(run(program.get(), {a.get(), b.get()}, 1, outputs));
  EXPECT_THAT(nobody.message, HasSubstr("'scale'"));
  bool fails = false;
  set_process_host_calls(scale, &fails);
  FETTLE_PJRT_OK(run(program.get(), {a.get(), b.get()}, 1, outputs));
  EXPECT_THAT(content_of<float>(outputs[0].get()), ElementsAre(2, 20, 15, 21));
  fails = true;
  EXPECT_THAT(taken(run(program.get(), {a.get(), b.get()}, 1, outputs)).message, HasSubstr("not now"));
  set_process_host_calls(nullptr, nullptr);
}

// for i in 3: note(i), and where i is odd note(i) again; nobody reads what comes of it
constexpr const char* kEffects = R"("builtin.module"() ({
  "func.func"() <{function_type = (tensor<i32>) -> (), sym_name = "main"}> ({
  ^bb0(%limit: tensor<i32>):
    %zero = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %0 = "stablehlo.while"(%zero) ({
    ^bb0(%i: tensor<i32>):
      %c = "stablehlo.compare"(%i, %limit) <{comparison_direction = #stablehlo<comparison_direction LT>}>
           : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%c) : (tensor<i1>) -> ()
    }, {
    ^bb0(%i: tensor<i32>):
      %one = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      "stablehlo.custom_call"(%i) <{call_target_name = "fettle.host_call", backend_config = "note",
          has_side_effect = true, api_version = 2 : i32}> : (tensor<i32>) -> ()
      %odd = "stablehlo.and"(%i, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.case"(%odd) ({
        "stablehlo.return"() : () -> ()
      }, {
        "func.call"(%i) <{callee = @twice}> : (tensor<i32>) -> ()
        "stablehlo.return"() : () -> ()
      }) : (tensor<i32>) -> ()
      %next = "stablehlo.add"(%i, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%next) : (tensor<i32>) -> ()
    }) : (tensor<i32>) -> tensor<i32>
    "func.return"() : () -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<i32>) -> (), sym_name = "twice", sym_visibility = "private"}> ({
  ^bb0(%i: tensor<i32>):
    "stablehlo.custom_call"(%i) <{call_target_name = "fettle.host_call", backend_config = "note",
        has_side_effect = true, api_version = 2 : i32}> : (tensor<i32>) -> ()
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
)";

TEST_F(Pjrt, EffectsAreNeitherLeftOutNorReordered) {
  Program program;
  FETTLE_PJRT_OK(compile(kEffects, program));
  std::vector<int32_t> noted;
  set_process_host_calls(
      [](void* user, const FettleHostCall* call) -> int32_t {
        if (call->n_inputs != 1 || call->n_outputs != 0) return FETTLE_INVALID_ARGUMENT;
        static_cast<std::vector<int32_t>*>(user)->push_back(*static_cast<const int32_t*>(call->inputs[0].data));
        return FETTLE_OK;
      },
      &noted);
  const Buffer limit = buffer_of<int32_t>({4}, PJRT_Buffer_Type_S32, {});
  std::vector<Buffer> outputs;
  FETTLE_PJRT_OK(run(program.get(), {limit.get()}, 0, outputs));
  FETTLE_PJRT_OK(run(program.get(), {limit.get()}, 0, outputs));
  EXPECT_THAT(noted, ElementsAre(0, 1, 1, 2, 3, 3, 0, 1, 1, 2, 3, 3));
  set_process_host_calls(nullptr, nullptr);
}

}  // namespace
}  // namespace fettle::pjrt
