#include "pjrt/compile_options.h"

#include <optional>

namespace fettle::pjrt {
namespace {

// Numbers of fields in xla/pjrt/proto/compile_options.proto.
constexpr uint64_t kBuildOptions = 3, kReplicas = 4, kPartitions = 5;

/// A protobuf message, field by field.
class Message {
 public:
  explicit Message(std::string_view bytes) : rest_(bytes) {}

  struct Field {
    uint64_t number = 0;
    uint64_t value = 0;      // of an integer
    std::string_view bytes;  // of a text or a message
  };

  bool is_over() const { return rest_.empty(); }
  /// Nothing where the bytes are damaged.
  std::optional<Field> next() {
    const std::optional<uint64_t> key = varint();
    if (!key) return std::nullopt;
    Field field;
    field.number = *key >> 3;
    std::optional<uint64_t> length;
    switch (*key & 7) {
      case 0: {
        const std::optional<uint64_t> value = varint();
        if (!value) return std::nullopt;
        field.value = *value;
        return field;
      }
      case 1:
        length = 8;
        break;
      case 2:
        length = varint();
        break;
      case 5:
        length = 4;
        break;
      default:
        break;
    }
    if (!length || *length > rest_.size()) return std::nullopt;
    field.bytes = rest_.substr(0, *length);
    rest_.remove_prefix(*length);
    return field;
  }

 private:
  std::optional<uint64_t> varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
    return std::nullopt;
  }

  std::string_view rest_;
};

Result<> damaged() { return fail(ErrorCode::E709, "the options of compiling are damaged: no CompileOptionsProto"); }

Result<> read_build_options(std::string_view bytes, ProgramOptions& options) {
  Message message(bytes);
  while (!message.is_over()) {
    const auto field = message.next();
    if (!field) return damaged();
    if (field->number == kReplicas) options.replicas = static_cast<int64_t>(field->value);
    if (field->number == kPartitions) options.partitions = static_cast<int64_t>(field->value);
  }
  return {};
}

}  // namespace

Result<ProgramOptions> read_compile_options(std::string_view bytes) {
  ProgramOptions options;
  Message message(bytes);
  while (!message.is_over()) {
    const auto field = message.next();
    if (!field) return fail(damaged().error());
    if (field->number == kBuildOptions) FETTLE_TRY_VOID(read_build_options(field->bytes, options));
  }
  return options;
}

}  // namespace fettle::pjrt
