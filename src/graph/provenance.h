#pragma once
// The model's nodes that work came from.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

namespace fettle {

/// A node of the model file: where work came from.
struct Origin {
  std::string op;    // as the file has it, "Conv"; with its domain where that is not ONNX's: "com.microsoft.Gelu"
  std::string name;  // or, of a node without one, its first output's

  std::string to_string() const { return op + " " + name; }
  friend bool operator==(const Origin&, const Origin&) = default;
};

/// A list of origins, each once. Copying it and merging two take no time that grows with them: long lists share their
/// parts, and are put together when someone reads them. One thread at a time.
class Provenance {
 public:
  Provenance() = default;
  Provenance(std::initializer_list<Origin> origins);

  /// Appends the origins of `other` that this lacks.
  void merge(const Provenance& other);

  bool empty() const { return !part_; }
  size_t size() const { return list().size(); }
  const Origin& operator[](size_t i) const { return list()[i]; }
  std::vector<Origin>::const_iterator begin() const { return list().begin(); }
  std::vector<Origin>::const_iterator end() const { return list().end(); }

  friend bool operator==(const Provenance& a, const Provenance& b) { return a.list() == b.list(); }

 private:
  struct Part;
  const std::vector<Origin>& list() const;

  std::shared_ptr<Part> part_;  // null: empty
};

/// "Conv conv1, Relu relu1 and 3 more": at most `most` of them.
std::string to_text(const Provenance& provenance, size_t most = SIZE_MAX);

}  // namespace fettle
