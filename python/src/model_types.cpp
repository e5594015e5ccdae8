#include "model_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "graph/strings.h"
#include "runtime/dtype.h"

namespace fettle::python {
namespace {

constexpr std::pair<FettleDtype, const char*> kTypes[] = {{FETTLE_F32, "float32"},
                                                          {FETTLE_F64, "float64"},
                                                          {FETTLE_F16, "float16"},
                                                          {FETTLE_BF16, "bfloat16"},
                                                          {FETTLE_I8, "int8"},
                                                          {FETTLE_I16, "int16"},
                                                          {FETTLE_I32, "int32"},
                                                          {FETTLE_I64, "int64"},
                                                          {FETTLE_U8, "uint8"},
                                                          {FETTLE_U16, "uint16"},
                                                          {FETTLE_U32, "uint32"},
                                                          {FETTLE_U64, "uint64"},
                                                          {FETTLE_BOOL, "bool"},
                                                          {FETTLE_I4, "int4"},
                                                          {FETTLE_U4, "uint4"},
                                                          {FETTLE_I2, "int2"},
                                                          {FETTLE_U2, "uint2"},
                                                          {FETTLE_F8E4M3FN, "float8_e4m3fn"},
                                                          {FETTLE_F8E4M3FNUZ, "float8_e4m3fnuz"},
                                                          {FETTLE_F8E5M2, "float8_e5m2"},
                                                          {FETTLE_F8E5M2FNUZ, "float8_e5m2fnuz"},
                                                          {FETTLE_F8E8M0, "float8_e8m0fnu"},
                                                          {FETTLE_F4E2M1, "float4_e2m1fn"},
                                                          {FETTLE_STRING, "string"}};

}  // namespace

const char* model_dtype_name(int32_t dtype) {
  for (const auto& [type, name] : kTypes)
    if (type == dtype) return name;
  raise(ErrorCode::E705, fmt::format("a type of number {}", dtype));
}

FettleDtype model_dtype(const std::string& name) {
  for (const auto& [type, known] : kTypes)
    if (name == known) return type;
  raise(ErrorCode::E705, "models have no " + name);
}

DType graph_dtype(const std::string& name) { return take(parse_dtype(dtype_name(model_dtype(name)))); }

std::string model_dtype_name(DType dtype) {
  const auto type = find_dtype(dtype.to_string());
  return type ? model_dtype_name(*type) : dtype.to_string();
}

ConstantTensor constant_of(const std::string& dtype, nb::handle data) {
  const DType type = graph_dtype(dtype);
  if (type.is_string()) {
    const auto [texts, shape] = nb::cast<std::pair<std::vector<nb::bytes>, std::vector<int64_t>>>(data);
    std::vector<std::string> strings;
    for (const nb::bytes& text : texts) strings.emplace_back(text.c_str(), text.size());
    return take(string_tensor(strings, shape));
  }
  using Array = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
  Array array = nb::cast<Array>(data, /*convert=*/false);
  if (static_cast<int>(array.itemsize()) != type.element_bytes()) raise(ErrorCode::E705, "an array of another type");
  ConstantTensor made{type, {}, {}, 0};
  for (size_t d = 0; d < array.ndim(); ++d) made.shape.push_back(static_cast<int64_t>(array.shape(d)));
  made.size_bytes = take(checked_bytes(type, made.shape));
  const auto* bytes = static_cast<const std::byte*>(array.data());
  auto* kept = new Array(std::move(array));
  made.bytes = std::shared_ptr<const std::byte>(bytes, [kept](const std::byte*) {
    const nb::gil_scoped_acquire acquired;
    delete kept;
  });
  return made;
}

}  // namespace fettle::python
