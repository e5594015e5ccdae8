#include "cuda/default_subjects.h"

#include <fmt/format.h>

#include <cmath>

#include "base/check.h"
#include "ir/text.h"
#include "tune/space/space.h"

namespace fettle::bench {
namespace {

using Inputs = std::vector<std::vector<double>>;

constexpr double kBound = 0.95;  // of a copy

Func parsed(const std::string& loops) {
  const auto made = parse_loops(loops);
  FETTLE_CHECK_MSG(made.has_value(), made ? "" : made.error().to_string());
  return *made;
}

Subject moves(std::string name, const std::string& loops, double bytes,
              std::function<double(int64_t, const Inputs&)> reference) {
  Subject s;
  s.name = std::move(name);
  s.func = parsed(loops);
  s.bytes = bytes;
  s.tolerance = 1e-4;
  s.bound = kBound;
  s.reference = std::move(reference);
  return by_default(std::move(s));
}

double at(const std::vector<double>& values, int64_t place) { return values[static_cast<size_t>(place)]; }

}  // namespace

Subject by_default(Subject subject) {
  subject.name = "default " + subject.name;
  subject.variants = {{"constructed",
                       [func = subject.func](Schedule& s) -> Result<> {
                         FETTLE_TRY(s, default_schedule(func, std::make_shared<const Target>(*s.target()), 1));
                         return {};
                       },
                       {}}};
  return subject;
}

std::vector<Subject> default_moves() {
  constexpr int64_t n = 8192, kRows = 65536, kColumns = 1024, kLong = 16384, kWide = 4096;
  constexpr double kArray = 4.0 * n * n;  // bytes
  static_assert(kRows * kColumns == n * n && kLong * kWide == n * n);
  std::vector<Subject> all;
  all.push_back(moves(fmt::format("elementwise {0} x {0}", n),
                      fmt::format("X: f32[{0}, {0}]\nB: f32[{0}]\nfor i in {0}: for j in {0}: "
                                  "Y[i, j] = max(X[i, j] * 2.0 + B[j], 0.0)",
                                  n),
                      2 * kArray,
                      [](int64_t i, const Inputs& in) { return std::max(at(in[0], i) * 2 + at(in[1], i % n), 0.0); }));
  all.push_back(moves(fmt::format("squares {0} x {0}", n - 1),
                      fmt::format("X: f32[{0}, {0}]\nfor i in {0}: for j in {0}: Y[i, j] = X[i, j] * X[i, j]", n - 1),
                      8.0 * (n - 1) * (n - 1),
                      [](int64_t i, const Inputs& in) { return at(in[0], i) * at(in[0], i); }));
  all.push_back(moves(fmt::format("transpose {0} x {0}", n),
                      fmt::format("X: f32[{0}, {0}]\nfor i in {0}: for j in {0}: Y[i, j] = X[j, i]", n), 2 * kArray,
                      [](int64_t i, const Inputs& in) { return at(in[0], i % n * n + i / n); }));
  all.push_back(moves(fmt::format("sums of rows {} x {}", kRows, kColumns),
                      fmt::format("X: f32[{0}, {1}]\nfor i in {0}: for k in {1}: Y[i] += X[i, k]", kRows, kColumns),
                      kArray, [](int64_t i, const Inputs& in) {
                        double sum = 0;
                        for (int64_t k = 0; k < kColumns; ++k) sum += at(in[0], i * kColumns + k);
                        return sum;
                      }));
  all.push_back(moves(fmt::format("sums of columns {} x {}", kLong, kWide),
                      fmt::format("X: f32[{1}, {0}]\nfor j in {0}: for k in {1}: Y[j] += X[k, j]", kWide, kLong),
                      kArray, [](int64_t j, const Inputs& in) {
                        double sum = 0;
                        for (int64_t k = 0; k < kLong; ++k) sum += at(in[0], k * kWide + j);
                        return sum;
                      }));
  all.push_back(moves(fmt::format("sum of all {}", n * n),
                      fmt::format("X: f32[{0}]\nfor k in {0}: Y[0] += X[k]", n * n), kArray,
                      [](int64_t, const Inputs& in) {
                        double sum = 0;
                        for (const double x : in[0]) sum += x;
                        return sum;
                      }));
  all.push_back(moves(
      fmt::format("gather {} rows of {}", kRows, kColumns),
      fmt::format("T: f32[{0}, {1}]\nI: i64[{0}]\nfor i in {0}: for j in {1}: Y[i, j] = T[I[i], j]", kRows, kColumns),
      2 * kArray, [](int64_t i, const Inputs& in) {
        return at(in[0], static_cast<int64_t>(at(in[1], i / kColumns)) * kColumns + i % kColumns);
      }));
  return all;
}

}  // namespace fettle::bench
