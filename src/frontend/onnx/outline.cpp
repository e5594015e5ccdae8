// A model's file without the content of its initializers.

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "frontend/onnx/import.h"
#include "onnx-ml.pb.h"

namespace fettle {
namespace {

using google::protobuf::internal::WireFormatLite;
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
  explicit WireReader(std::string_view message)
      : message_(message), input_(reinterpret_cast<const uint8_t*>(message.data()), static_cast<int>(message.size())) {}

  bool is_at_end() const { return place() == message_.size(); }
  /// False: there is no whole field.
  bool next(WireField& field) {
    const size_t begin = place();
    const uint32_t tag = input_.ReadTag();
    if (tag == 0) return false;
    field = {.number = static_cast<uint64_t>(WireFormatLite::GetTagFieldNumber(tag))};
    if (WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      uint32_t length = 0;
      if (!input_.ReadVarint32(&length) || message_.size() - place() < length) return false;
      field.is_message = true;
      field.content = message_.substr(place(), length);
      input_.Skip(static_cast<int>(length));
    } else if (!WireFormatLite::SkipField(&input_, tag)) {
      return false;
    }
    field.whole = message_.substr(begin, place() - begin);
    return true;
  }

 private:
  size_t place() const { return static_cast<size_t>(input_.CurrentPosition()); }

  std::string_view message_;
  google::protobuf::io::CodedInputStream input_;
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
      within(ModelProto::kGraphFieldNumber, within(GraphProto::kInitializerFieldNumber, &append_unless_content));
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
