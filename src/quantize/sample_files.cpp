#include "quantize/sample_files.h"

#include <fmt/format.h>
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <map>

#include "frontend/onnx/description.h"
#include "frontend/onnx/tensor_reader.h"
#include "onnx-ml.pb.h"
#include "runtime/dtype.h"
#include "runtime/npy.h"

namespace fettle::quantize {
namespace {

namespace fs = std::filesystem;

/// One sample: files by the inputs that they are of.
using SampleFiles = std::vector<std::pair<std::string, fs::path>>;

bool is_array(const fs::path& path) { return path.extension() == ".npy" || path.extension() == ".pb"; }

/// How a file of the input is called: the rule of `fettle run --output-dir`.
std::string file_stem(std::string name) {
  for (char& c : name)
    if (c == '/' || c == '\\' || c == ':' || static_cast<unsigned char>(c) < 32) c = '_';
  return name;
}

Result<Tensor> read_proto(const fs::path& path) {
  FETTLE_TRY(const onnx_reader::MappedFile file, onnx_reader::map_file(path.string()));
  const auto proto = std::make_shared<onnx::TensorProto>();
  google::protobuf::LogSilencer quiet;
  if (file.size_bytes > INT32_MAX || !proto->ParseFromArray(file.bytes.get(), static_cast<int>(file.size_bytes)))
    return fail(ErrorCode::E701, "it is no TensorProto", path.string());
  onnx_reader::ExternalFiles none{onnx_reader::ExternalData{}};
  FETTLE_TRY(const ConstantTensor content, onnx_reader::read_tensor(*proto, proto, none));
  const auto dtype = find_dtype(content.dtype.to_string());
  if (!dtype || content.dtype.is_string())
    return fail(ErrorCode::E701, "an array of " + content.dtype.to_string(), path.string());
  FETTLE_TRY(Tensor tensor, Tensor::make(*dtype, content.shape));
  if (content.size_bytes > 0) std::memcpy(tensor.data(), content.data(), static_cast<size_t>(content.size_bytes));
  return tensor;
}

class SampleFinder {
 public:
  explicit SampleFinder(const OnnxModel& model) {
    for (const DescribedValue& input : describe_model(model).inputs) inputs_.push_back(input.name);
  }

  Result<> add(const fs::path& path) {
    std::error_code error;
    if (!fs::is_directory(path, error)) return add_file(path);
    FETTLE_TRY(const std::vector<fs::path> entries, listed(path));
    if (std::ranges::any_of(entries, [&](const fs::path& entry) { return !input_of(entry).empty(); }))
      return add_folder(path, entries);
    size_t before = found.size();
    for (const fs::path& entry : entries)
      if (is_array(entry)) {
        FETTLE_TRY_VOID(add_file(entry));
      } else if (fs::is_directory(entry, error)) {
        FETTLE_TRY(const std::vector<fs::path> inside, listed(entry));
        FETTLE_TRY_VOID(add_folder(entry, inside));
      }
    if (found.size() == before) return fail(ErrorCode::E701, "no samples lie there: .npy or .pb files", path.string());
    return {};
  }

  std::vector<SampleFiles> found;

 private:
  static Result<std::vector<fs::path>> listed(const fs::path& folder) {
    std::vector<fs::path> entries;
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
      entries.push_back(at->path());
    if (error) return fail(ErrorCode::E701, error.message(), folder.string());
    std::ranges::sort(entries);
    return entries;
  }

  /// The input that a file in a sample's folder is called after; empty: none.
  std::string input_of(const fs::path& file) const {
    const std::string stem = file.stem().string();
    if (!is_array(file)) return {};
    for (const std::string& input : inputs_)
      if (stem == file_stem(input)) return input;
    constexpr std::string_view kNumbered = "input_";
    size_t number = 0;
    const char* end = stem.data() + stem.size();
    if (!stem.starts_with(kNumbered)) return {};
    const auto [next, error] = std::from_chars(stem.data() + kNumbered.size(), end, number);
    return error == std::errc() && next == end && number < inputs_.size() ? inputs_[number] : std::string();
  }

  Result<> add_file(const fs::path& path) {
    if (!is_array(path))
      return fail(ErrorCode::E701, "a sample is a .npy or .pb file, or a folder of them", path.string());
    if (inputs_.size() != 1)
      return fail(ErrorCode::E704,
                  fmt::format("the model has {} inputs: a sample is a folder of files that are called "
                              "as these",
                              inputs_.size()),
                  path.string());
    found.push_back({{inputs_[0], path}});
    return {};
  }

  Result<> add_folder(const fs::path& folder, const std::vector<fs::path>& entries) {
    SampleFiles sample;
    for (const fs::path& entry : entries) {
      if (!is_array(entry) || entry.stem().string().starts_with("output_")) continue;
      const std::string input = input_of(entry);
      if (input.empty())
        return fail(ErrorCode::E704, fmt::format("the model has no input \"{}\"", entry.stem().string()),
                    entry.string());
      sample.emplace_back(input, entry);
    }
    for (const std::string& input : inputs_)
      if (std::ranges::count(sample, input, &SampleFiles::value_type::first) != 1)
        return fail(ErrorCode::E704, fmt::format("there must be one file of the input \"{}\"", input), folder.string());
    found.push_back(std::move(sample));
    return {};
  }

  std::vector<std::string> inputs_;
};

}  // namespace

Result<Samples> open_samples(const std::vector<std::string>& paths, const OnnxModel& model) {
  SampleFinder finder(model);
  for (const std::string& path : paths) FETTLE_TRY_VOID(finder.add(path));
  const auto files = std::make_shared<const std::vector<SampleFiles>>(std::move(finder.found));
  return Samples{files->size(), [files](size_t i) -> Result<std::vector<NamedTensor>> {
                   std::vector<NamedTensor> inputs;
                   for (const auto& [name, path] : (*files)[i]) {
                     FETTLE_TRY(Tensor tensor, path.extension() == ".pb" ? read_proto(path) : read_npy(path));
                     inputs.push_back({name, std::move(tensor)});
                   }
                   return inputs;
                 }};
}

}  // namespace fettle::quantize
