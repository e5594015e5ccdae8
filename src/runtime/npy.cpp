#include "runtime/npy.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <cstring>

#include "base/output_file.h"
#include "runtime/dtype.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr uint32_t kMaxHeaderBytes = 64 << 10;
constexpr size_t kMaxRank = 32;

struct Descr {
  std::string_view text;  // without the byte order
  FettleDtype dtype;
};
constexpr Descr kDescrs[] = {
    {"b1", FETTLE_BOOL}, {"i1", FETTLE_I8},  {"u1", FETTLE_U8},  {"i2", FETTLE_I16}, {"u2", FETTLE_U16},
    {"i4", FETTLE_I32},  {"u4", FETTLE_U32}, {"i8", FETTLE_I64}, {"u8", FETTLE_U64}, {"f2", FETTLE_F16},
    {"V2", FETTLE_BF16}, {"f4", FETTLE_F32}, {"f8", FETTLE_F64},
};

/// Closes the file when left.
struct File {
  std::FILE* handle;
  explicit File(std::FILE* h) : handle(h) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (handle != nullptr) std::fclose(handle);
  }
};

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

/// Reads the header's dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : rest_(text) {}

  /// Nothing where the text is not such a dictionary with each key once.
  std::optional<Header> parse() {
    Header header;
    int seen = 0;
    if (!accept('{')) return std::nullopt;
    while (!accept('}')) {
      const std::optional<std::string> key = quoted();
      if (!key || !accept(':')) return std::nullopt;
      int bit = 0;
      if (*key == "descr") {
        bit = 1;
        const std::optional<std::string> value = quoted();
        if (!value) return std::nullopt;
        header.descr = *value;
      } else if (*key == "fortran_order") {
        bit = 2;
        header.fortran_order = accept_word("True");
        if (!header.fortran_order && !accept_word("False")) return std::nullopt;
      } else if (*key == "shape") {
        bit = 4;
        if (!tuple(header.shape)) return std::nullopt;
      }
      if (bit == 0 || (seen & bit) != 0) return std::nullopt;
      seen |= bit;
      if (!accept(',') && peek() != '}') return std::nullopt;
    }
    skip_space();
    return seen == 7 && rest_.empty() ? std::optional(header) : std::nullopt;
  }

 private:
  void skip_space() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n' || rest_[0] == '\t')) rest_.remove_prefix(1);
  }
  char peek() {
    skip_space();
    return rest_.empty() ? '\0' : rest_[0];
  }
  bool accept(char c) {
    if (peek() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool accept_word(std::string_view word) {
    skip_space();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  std::optional<std::string> quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return std::nullopt;
    const size_t end = rest_.find(quote, 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string value(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return value;
  }
  bool tuple(std::vector<int64_t>& values) {
    if (!accept('(')) return false;
    while (!accept(')')) {
      skip_space();
      int64_t value = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
      if (error != std::errc{} || value < 0 || values.size() == kMaxRank) return false;
      values.push_back(value);
      rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
      accept_word("L");  // Python 2's long integers
      if (!accept(',') && peek() != ')') return false;
    }
    return true;
  }

  std::string_view rest_;
};

tl::unexpected<Diagnostic> refuse(const fs::path& path, std::string why) {
  return fail(ErrorCode::E703, std::move(why), path.string());
}

/// The element type that a header's descr names. E703.
Result<FettleDtype> find_descr(const fs::path& path, const std::string& descr) {
  if (descr.size() >= 2) {
    for (const Descr& entry : kDescrs) {
      if (std::string_view(descr).substr(1) != entry.text) continue;
      if (descr[0] == '>' && dtype_bytes(entry.dtype) > 1) return refuse(path, "the array is big-endian");
      if (std::string_view("<|=>").find(descr[0]) != std::string_view::npos) return entry.dtype;
    }
  }
  return refuse(path, fmt::format("element type '{}' is not supported", descr));
}

/// Reads up to the data. E703.
Result<Header> read_header(const fs::path& path, std::FILE* file) {
  unsigned char start[12];
  if (std::fread(start, 1, 8, file) != 8 || std::memcmp(start, kMagic.data(), kMagic.size()) != 0)
    return refuse(path, "the file does not start as .npy files do");
  const int major = start[6];
  if (major < 1 || major > 3) return refuse(path, fmt::format("version {} of the format is not known", major));
  const size_t length_bytes = major == 1 ? 2 : 4;
  if (std::fread(start + 8, 1, length_bytes, file) != length_bytes) return refuse(path, "the header is cut short");
  uint32_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) length |= uint32_t{start[8 + i]} << (8 * i);
  if (length > kMaxHeaderBytes) return refuse(path, fmt::format("the header claims {} bytes", length));
  std::string text(length, '\0');
  if (std::fread(text.data(), 1, length, file) != length) return refuse(path, "the header is cut short");
  std::optional<Header> header = HeaderParser(text).parse();
  if (!header) return refuse(path, "the header is not a dictionary of descr, fortran_order and shape");
  return *header;
}

}  // namespace

Result<Tensor> read_npy(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return fail(ErrorCode::E701, "it is a folder", path.string());
  const File file(std::fopen(path.c_str(), "rb"));
  if (file.handle == nullptr) return fail(ErrorCode::E701, std::strerror(errno), path.string());
  FETTLE_TRY(const Header header, read_header(path, file.handle));
  FETTLE_TRY(const FettleDtype dtype, find_descr(path, header.descr));
  if (header.fortran_order && header.shape.size() > 1) return refuse(path, "the array is in Fortran order");
  const std::optional<int64_t> count = count_elems(header.shape);
  if (!count) return refuse(path, fmt::format("shape {} is too large", shape_to_string(header.shape)));
  const int64_t bytes = *count * dtype_bytes(dtype);
  const auto size = static_cast<int64_t>(fs::file_size(path, error));
  const int64_t available = error ? 0 : size - std::ftell(file.handle);
  if (available < bytes) return refuse(path, fmt::format("the data are cut short: {} of {} bytes", available, bytes));
  FETTLE_TRY(Tensor tensor, Tensor::make(dtype, header.shape));
  if (std::fread(tensor.data(), 1, static_cast<size_t>(bytes), file.handle) != static_cast<size_t>(bytes))
    return fail(ErrorCode::E701, "reading stopped early", path.string());
  return tensor;
}

namespace {
// NumPy itself has no types of less than a byte, nor floats of 8 bits: their bytes are written.
FettleDtype written_as(FettleDtype dtype) {
  if (dtype == FETTLE_I4 || dtype == FETTLE_I2) return FETTLE_I8;
  return dtype > FETTLE_F64 ? FETTLE_U8 : dtype;
}
}  // namespace

Result<> write_npy(const fs::path& path, const Tensor& tensor) {
  if (tensor.dtype() == FETTLE_STRING)
    return fail(ErrorCode::E709, "strings are not written as .npy: read them in Python or C", path.string());
  std::string descr;
  for (const Descr& entry : kDescrs)
    if (entry.dtype == written_as(tensor.dtype()))
      descr = (dtype_bytes(entry.dtype) == 1 ? "|" : "<") + std::string(entry.text);
  std::string shape;
  for (const int64_t extent : tensor.shape()) shape += fmt::format("{}, ", extent);
  if (tensor.shape().size() > 1) shape.resize(shape.size() - 2);
  if (tensor.shape().size() == 1) shape.resize(shape.size() - 1);
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
  const size_t prefix = kMagic.size() + 4;
  text.append((64 - (prefix + text.size() + 1) % 64) % 64, ' ');
  text += '\n';

  const char lengths[] = {1, 0, static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  FETTLE_TRY(OutputFile file, OutputFile::create(path));
  FETTLE_TRY_VOID(file.write(kMagic));
  FETTLE_TRY_VOID(file.write({lengths, sizeof lengths}));
  FETTLE_TRY_VOID(file.write(text));
  FETTLE_TRY_VOID(file.write({static_cast<const char*>(tensor.data()), static_cast<size_t>(tensor.n_bytes())}));
  return file.commit();
}

}  // namespace fettle
