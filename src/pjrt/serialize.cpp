// Programs as bytes: what JAX's compilation cache keeps.
//   magic, then texts, each behind its length: who wrote it, the interface, the code, the options, a shared library;
//   then the digest of all that.

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/version.h"
#include "codegen/object_cache.h"
#include "pjrt/program.h"
#include "target/target.h"

namespace fettle::pjrt {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view kMagic = "FTPJRT02";

/// A folder for a moment.
class Folder {
 public:
  static Result<Folder> make() {
    std::error_code error;
    std::string name = (fs::temp_directory_path(error) / "fettle-program-XXXXXX").string();
    if (error || ::mkdtemp(name.data()) == nullptr)
      return fail(ErrorCode::E702, fmt::format("no folder can be made for a program: {}", std::strerror(errno)), name);
    return Folder(name);
  }
  Folder(Folder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  Folder& operator=(Folder&&) = delete;
  ~Folder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  fs::path library() const { return path_ / "program.so"; }

 private:
  explicit Folder(fs::path path) : path_(std::move(path)) {}
  fs::path path_;
};

std::string writer() {
  return fmt::format("{} {} {}", name_and_version(), program_identity(), detect_host().feature_key());
}

void put(std::string& bytes, std::string_view text) {
  const uint64_t size = text.size();
  bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
  bytes.append(text);
}

std::optional<std::string_view> take(std::string_view& bytes) {
  uint64_t size = 0;
  if (bytes.size() < sizeof size) return std::nullopt;
  std::memcpy(&size, bytes.data(), sizeof size);
  bytes.remove_prefix(sizeof size);
  if (bytes.size() < size) return std::nullopt;
  const std::string_view text = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return text;
}

Json json_of(const std::vector<ShapeRef>& shapes) {
  Json made = Json::array();
  for (const ShapeRef& shape : shapes) made.push_back({{"type", shape->type}, {"dims", shape->dims}});
  return made;
}

Result<std::vector<ShapeRef>> shapes_of(const Json& json) {
  std::vector<ShapeRef> shapes;
  for (const Json& one : json) {
    FETTLE_TRY(ShapeRef shape, make_shape(static_cast<PJRT_Buffer_Type>(one.at("type").get<int>()),
                                          one.at("dims").get<std::vector<int64_t>>()));
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

Result<> damaged() { return fail(ErrorCode::E706, "a serialised program is damaged; it must be compiled again"); }

/// Errors: E706
Result<> read_interface(std::string_view text, Program& program) {
  const Json json = Json::parse(text, nullptr, false);
  try {
    program.interface.name = json.at("name").get<std::string>();
    program.interface.donated = json.at("donated").get<std::vector<bool>>();
    program.interface.written_over = json.at("written_over").get<std::vector<int>>();
    program.temporary_bytes = json.at("temporary_bytes").get<int64_t>();
    FETTLE_TRY(program.interface.inputs, shapes_of(json.at("inputs")));
    FETTLE_TRY(program.interface.outputs, shapes_of(json.at("outputs")));
  } catch (const Json::exception&) {
    return damaged();
  }
  const bool fits = program.interface.donated.size() == program.interface.inputs.size() &&
                    program.interface.written_over.size() == program.interface.outputs.size();
  return fits ? Result<>() : damaged();
}

Result<std::string> library_of(const CompiledModel& compiled) {
  FETTLE_TRY(const Folder folder, Folder::make());
  FETTLE_TRY_VOID(compiled.write(folder.library()));
  std::ifstream file(folder.library(), std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (bytes.empty()) return fail(ErrorCode::E701, "the library of a program", folder.library().string());
  return bytes;
}

}  // namespace

Result<std::string> serialize_program(Program& program) {
  const Json interface = {{"name", program.interface.name},
                          {"inputs", json_of(program.interface.inputs)},
                          {"outputs", json_of(program.interface.outputs)},
                          {"donated", program.interface.donated},
                          {"written_over", program.interface.written_over},
                          {"temporary_bytes", program.temporary_bytes}};
  std::string bytes(kMagic);
  put(bytes, writer());
  put(bytes, interface.dump());
  put(bytes, program.code);
  put(bytes, program.options);
  if (program.compiled) {
    FETTLE_TRY(const std::string library, library_of(*program.compiled));
    put(bytes, library);
  } else {
    put(bytes, program.library);
  }
  return bytes + digest_bytes(bytes).hex();
}

Result<ProgramRef> load_program(const PJRT_Client& client, std::string_view bytes) {
  constexpr size_t kDigest = 32;
  if (bytes.size() < kMagic.size() + kDigest || !bytes.starts_with(kMagic)) return fail(damaged().error());
  std::string_view rest = bytes.substr(kMagic.size(), bytes.size() - kMagic.size() - kDigest);
  const auto written_by = take(rest);
  if (written_by && *written_by != writer())
    return fail(ErrorCode::E706, fmt::format("a program was serialised by '{}', and this is '{}': compile it again",
                                             *written_by, writer()));
  if (digest_bytes(bytes.substr(0, bytes.size() - kDigest)).hex() != bytes.substr(bytes.size() - kDigest))
    return fail(damaged().error());
  const auto interface = take(rest), code = take(rest), options = take(rest), library = take(rest);
  if (!interface || !code || !options || !library || !rest.empty()) return fail(damaged().error());
  auto program = std::make_shared<Program>();
  FETTLE_TRY_VOID(read_interface(*interface, *program));
  program->code = *code;
  program->options = *options;
  program->library = *library;
  program->fingerprint = digest_bytes(*code);
  FETTLE_TRY(const Folder folder, Folder::make());
  std::ofstream file(folder.library(), std::ios::binary);
  file.write(library->data(), static_cast<std::streamsize>(library->size()));
  file.close();
  if (!file) return fail(ErrorCode::E702, "the library of a program", folder.library().string());
  FETTLE_TRY(program->model, Model::load(folder.library(), ProgramRun(client).options));
  FETTLE_TRY_VOID(check_interface(program->interface, program->model));
  return program;
}

}  // namespace fettle::pjrt
