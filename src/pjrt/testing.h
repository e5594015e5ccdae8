#pragma once
// PJRT's functions as tests call them.

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "pjrt/api.h"

namespace fettle::pjrt {

/// Arguments of this struct, whose size is set.
template <class Args>
Args sized() {
  Args args{};
  args.struct_size = sizeof args;
  return args;
}

struct Failure {
  PJRT_Error_Code code = PJRT_Error_Code_OK;
  std::string message;
};

/// What an error says; it is destroyed.
inline Failure taken(PJRT_Error* error) {
  if (error == nullptr) return {};
  auto code = sized<PJRT_Error_GetCode_Args>();
  code.error = error;
  EXPECT_EQ(pjrt_api()->PJRT_Error_GetCode(&code), nullptr);
  auto message = sized<PJRT_Error_Message_Args>();
  message.error = error;
  pjrt_api()->PJRT_Error_Message(&message);
  const Failure failure{code.code, std::string(message.message, message.message_size)};
  auto destroy = sized<PJRT_Error_Destroy_Args>();
  destroy.error = error;
  pjrt_api()->PJRT_Error_Destroy(&destroy);
  return failure;
}

#define FETTLE_PJRT_OK(call)                                        \
  do {                                                              \
    const auto failure = ::fettle::pjrt::taken(call);               \
    ASSERT_EQ(failure.code, PJRT_Error_Code_OK) << failure.message; \
  } while (false)

class PjrtTest : public testing::Test {
 protected:
  void SetUp() override {
    auto args = sized<PJRT_Client_Create_Args>();
    FETTLE_PJRT_OK(api.PJRT_Client_Create(&args));
    client = args.client;
  }
  void TearDown() override {
    auto args = sized<PJRT_Client_Destroy_Args>();
    args.client = client;
    FETTLE_PJRT_OK(api.PJRT_Client_Destroy(&args));
  }

  struct Destroy {
    void operator()(PJRT_Buffer* buffer) const {
      auto args = sized<PJRT_Buffer_Destroy_Args>();
      args.buffer = buffer;
      EXPECT_EQ(taken(pjrt_api()->PJRT_Buffer_Destroy(&args)).code, PJRT_Error_Code_OK);
    }
    void operator()(PJRT_LoadedExecutable* executable) const {
      auto args = sized<PJRT_LoadedExecutable_Destroy_Args>();
      args.executable = executable;
      EXPECT_EQ(taken(pjrt_api()->PJRT_LoadedExecutable_Destroy(&args)).code, PJRT_Error_Code_OK);
    }
    void operator()(PJRT_Executable* executable) const {
      auto args = sized<PJRT_Executable_Destroy_Args>();
      args.executable = executable;
      EXPECT_EQ(taken(pjrt_api()->PJRT_Executable_Destroy(&args)).code, PJRT_Error_Code_OK);
    }
    void operator()(PJRT_Event* event) const {
      auto args = sized<PJRT_Event_Destroy_Args>();
      args.event = event;
      EXPECT_EQ(taken(pjrt_api()->PJRT_Event_Destroy(&args)).code, PJRT_Error_Code_OK);
    }
  };
  using Buffer = std::unique_ptr<PJRT_Buffer, Destroy>;
  using Program = std::unique_ptr<PJRT_LoadedExecutable, Destroy>;
  using Event = std::unique_ptr<PJRT_Event, Destroy>;

  template <class T>
  Buffer buffer_of(const std::vector<T>& data, PJRT_Buffer_Type type, const std::vector<int64_t>& dims,
                   PJRT_HostBufferSemantics semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall,
                   Event* done = nullptr, const std::vector<int64_t>& strides = {}) {
    auto args = sized<PJRT_Client_BufferFromHostBuffer_Args>();
    args.client = client;
    args.data = data.data();
    args.type = type;
    args.dims = dims.data();
    args.num_dims = dims.size();
    args.byte_strides = strides.data();
    args.num_byte_strides = strides.size();
    args.host_buffer_semantics = semantics;
    const Failure failure = taken(api.PJRT_Client_BufferFromHostBuffer(&args));
    EXPECT_EQ(failure.code, PJRT_Error_Code_OK) << failure.message;
    Event event(args.done_with_host_buffer);
    if (done) *done = std::move(event);
    return Buffer(args.buffer);
  }

  template <class T>
  std::vector<T> content_of(PJRT_Buffer* buffer) {
    auto args = sized<PJRT_Buffer_ToHostBuffer_Args>();
    args.src = buffer;
    EXPECT_EQ(taken(api.PJRT_Buffer_ToHostBuffer(&args)).code, PJRT_Error_Code_OK);
    std::vector<T> data(args.dst_size / sizeof(T));
    args.dst = data.data();
    EXPECT_EQ(taken(api.PJRT_Buffer_ToHostBuffer(&args)).code, PJRT_Error_Code_OK);
    Event event(args.event);
    return data;
  }

  uintptr_t address_of(PJRT_Buffer* buffer) {
    auto args = sized<PJRT_Buffer_UnsafePointer_Args>();
    args.buffer = buffer;
    EXPECT_EQ(taken(api.PJRT_Buffer_UnsafePointer(&args)).code, PJRT_Error_Code_OK);
    return args.buffer_pointer;
  }

  bool is_deleted(PJRT_Buffer* buffer) {
    auto args = sized<PJRT_Buffer_IsDeleted_Args>();
    args.buffer = buffer;
    EXPECT_EQ(taken(api.PJRT_Buffer_IsDeleted(&args)).code, PJRT_Error_Code_OK);
    return args.is_deleted;
  }

  PJRT_Error* compile(std::string code, Program& made, const std::string& options = {}) {
    auto program = sized<PJRT_Program>();
    program.code = code.data();
    program.code_size = code.size();
    program.format = "mlir";
    program.format_size = 4;
    auto args = sized<PJRT_Client_Compile_Args>();
    args.client = client;
    args.program = &program;
    args.compile_options = options.data();
    args.compile_options_size = options.size();
    PJRT_Error* error = api.PJRT_Client_Compile(&args);
    if (error == nullptr) made.reset(args.executable);
    return error;
  }

  PJRT_Error* run(PJRT_LoadedExecutable* program, const std::vector<PJRT_Buffer*>& inputs, size_t n_outputs,
                  std::vector<Buffer>& outputs, const std::vector<int64_t>& kept = {}) {
    auto options = sized<PJRT_ExecuteOptions>();
    options.non_donatable_input_indices = kept.data();
    options.num_non_donatable_input_indices = kept.size();
    PJRT_Buffer* const* lists[] = {inputs.data()};
    std::vector<PJRT_Buffer*> made(n_outputs);
    PJRT_Buffer** output_lists[] = {made.data()};
    auto args = sized<PJRT_LoadedExecutable_Execute_Args>();
    args.executable = program;
    args.options = &options;
    args.argument_lists = lists;
    args.num_devices = 1;
    args.num_args = inputs.size();
    args.output_lists = output_lists;
    PJRT_Error* error = api.PJRT_LoadedExecutable_Execute(&args);
    if (error == nullptr)
      for (PJRT_Buffer* one : made) outputs.emplace_back(one);
    return error;
  }

  const PJRT_Api& api = *pjrt_api();
  PJRT_Client* client = nullptr;
};

}  // namespace fettle::pjrt
