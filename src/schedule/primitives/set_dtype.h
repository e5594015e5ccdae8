#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Stores an internal buffer in another type. Unsafe: values are rounded or wrapped as they are stored, so that results
/// may differ as far as the type is narrower; nothing checks that this is meant.
///   set_dtype(T, 0, "f16"):   T[vi] = x;  y = T[vi]        →   T[vi] = f16(x);  y = f32(T[vi])
///   set_dtype(T, 0, "i16"):   T[vi] = x;  y = i32(T[vi])   →   T[vi] = i16(x);  y = i32(T[vi])      T: u8
/// Integers of which the new type holds all values stay what they are: then results are the same.
/// buffer_index: which of the block's writes
/// dtype:        "f32", "bf16", "i8", …
/// Returns nothing. Costs the conversions; what is moved through memory shrinks or grows.
/// Errors: E206 no such block · E242 an address of the buffer is taken · E218 the buffer is a parameter
///         E220 no such write · E241 no type of numbers
struct SetDtypeArgs {
  BlockRef block;
  int64_t buffer_index = 0;
  std::string dtype;
  static constexpr auto fields =
      std::tuple{field("block", &SetDtypeArgs::block), field("buffer_index", &SetDtypeArgs::buffer_index),
                 field("dtype", &SetDtypeArgs::dtype)};
};
Result<> set_dtype(Schedule& s, const SetDtypeArgs& args);

}  // namespace fettle
