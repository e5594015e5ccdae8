// A model's file without the content of its initializers.

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "frontend/onnx/import.h"
#include "onnx-ml.pb.h"

namespace fettle {
namespace {

using onnx::GraphProto;
using onnx::ModelProto;
using onnx::TensorProto;

/// A field of a message in protobuf's wire format.
struct WireField {
  uint64_t number = 0;
  bool is_message = false;   // or a text, or packed numbers: what has a length
  std::string_view whole;    // with its key
  std::string_view content;  // of what has a length
};

class WireReader {
 public:
  explicit WireReader(std::string_view message) : left_(message) {}

  bool is_at_end() const { return left_.empty(); }
  /// False: there is no whole field, or it is of a kind that ONNX has not.
  bool next(WireField& field) {
    const std::string_view begin = left_;
    uint64_t key = 0, length = 0;
    if (!number(key)) return false;
    field = {.number = key >> 3};
    switch (key & 7) {
      case 0:
        if (!number(length)) return false;
        break;
      case 1:
        if (!skip(8)) return false;
        break;
      case 2:
        field.is_message = true;
        if (!number(length) || left_.size() < length) return false;
        field.content = left_.substr(0, length);
        left_.remove_prefix(length);
        break;
      case 5:
        if (!skip(4)) return false;
        break;
      default:
        return false;
    }
    field.whole = begin.substr(0, begin.size() - left_.size());
    return true;
  }

 private:
  bool skip(size_t n) {
    if (left_.size() < n) return false;
    left_.remove_prefix(n);
    return true;
  }
  bool number(uint64_t& value) {
    for (int shift = 0; shift < 64 && !left_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(left_.front());
      left_.remove_prefix(1);
      value |= uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }

  std::string_view left_;
};

void append_number(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

/// Appends the message with `edit(field, out)` in place of each field. False: it is no message, or `edit` says so.
template <class Edit>
bool append_edited(std::string_view message, std::string& out, const Edit& edit) {
  WireReader reader(message);
  WireField field;
  while (!reader.is_at_end())
    if (!reader.next(field) || !edit(field, out)) return false;
  return true;
}

/// `edit` applied to the messages that the field `number` holds; the others as they are.
template <class Edit>
auto within(int number, const Edit& edit) {
  return [number, edit](const WireField& field, std::string& out) {
    if (field.number != static_cast<uint64_t>(number) || !field.is_message) {
      out += field.whole;
      return true;
    }
    std::string inside;
    if (!append_edited(field.content, inside, edit)) return false;
    append_number(out, field.number << 3 | 2);
    append_number(out, inside.size());
    out += inside;
    return true;
  };
}

bool append_unless_content(const WireField& field, std::string& out) {
  switch (field.number) {
    case TensorProto::kRawDataFieldNumber:
    case TensorProto::kFloatDataFieldNumber:
    case TensorProto::kDoubleDataFieldNumber:
    case TensorProto::kInt32DataFieldNumber:
    case TensorProto::kInt64DataFieldNumber:
    case TensorProto::kUint64DataFieldNumber:
    case TensorProto::kStringDataFieldNumber:
      break;
    default:
      out += field.whole;
  }
  return true;
}

}  // namespace

Result<OnnxModel> parse_onnx_outline(std::span<const std::byte> bytes, std::optional<std::string> folder,
                                     std::string label) {
  const std::string_view file(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto edit =
      within(ModelProto::kGraphFieldNumber, within(GraphProto::kInitializerFieldNumber, append_unless_content));
  // What is no model, or too large, is refused as ever.
  std::string outline;
  const bool is_model = file.size() <= INT32_MAX && append_edited(file, outline, edit);
  return parse_onnx(is_model ? std::as_bytes(std::span(outline)) : bytes, std::move(folder), std::move(label));
}

Result<OnnxModel> read_onnx_outline(const std::string& path) {
  FETTLE_TRY(const onnx_reader::MappedFile file, onnx_reader::map_file(path));
  return parse_onnx_outline({file.bytes.get(), static_cast<size_t>(file.size_bytes)},
                            std::filesystem::path(path).parent_path().string(), path);
}

}  // namespace fettle
