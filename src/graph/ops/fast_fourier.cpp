#include "graph/ops/fast_fourier.h"

#include <bit>
#include <cmath>
#include <complex>
#include <functional>
#include <vector>

#include "base/check.h"

namespace fettle::ops {
namespace {

using passes::Lowering;
using Number = std::complex<double>;

class FastFourier {
 public:
  FastFourier(Lowering& g, const Complex& x, bool inverse) : g_(g), dtype_(x.real->dtype()), sign_(inverse ? 1 : -1) {}

  Complex of(const Complex& x, int64_t n) {
    if (n <= kMostDirect) return product(x, turns(n, n, n));
    const int64_t a = factor_of(n);
    return a > 1 ? in_parts(x, a, n / a) : by_chirp(x, n);
  }

 private:
  // The largest factor that is at most the root.
  static int64_t factor_of(int64_t n) {
    int64_t best = 1;
    for (int64_t a = 2; a * a <= n; ++a)
      if (n % a == 0) best = a;
    return best;
  }

  // exp(± 2πi place/n)
  Number turn(int64_t place, int64_t n) const {
    return std::polar(1.0, sign_ * 2 * M_PI * static_cast<double>(place % n) / static_cast<double>(n));
  }

  Complex constant(const std::vector<Number>& numbers, const std::vector<int64_t>& shape) const {
    const auto part = [&](double (*of)(const Number&)) {
      std::vector<double> values;
      values.reserve(numbers.size());
      for (const Number& number : numbers) values.push_back(of(number));
      auto made = to_tensor(values, dtype_, shape);
      FETTLE_CHECK(made.has_value());
      return g_.constant(std::move(*made));
    };
    return {part([](const Number& z) { return z.real(); }), part([](const Number& z) { return z.imag(); })};
  }
  Complex turns(int64_t rows, int64_t columns, int64_t n) const {
    std::vector<Number> all;
    for (int64_t j = 0; j < rows; ++j)
      for (int64_t k = 0; k < columns; ++k) all.push_back(turn(j * k, n));
    return constant(all, {rows, columns});
  }

  // A bilinear operator of complex numbers.
  Complex apply(std::string_view op, const Complex& x, const Complex& y) {
    Complex made{g_(op, {x.real, y.real}), nullptr};
    if (x.imaginary && y.imaginary) made.real = g_("Sub", {made.real, g_(op, {x.imaginary, y.imaginary})});
    if (y.imaginary) made.imaginary = g_(op, {x.real, y.imaginary});
    if (x.imaginary) {
      Value* other = g_(op, {x.imaginary, y.real});
      made.imaginary = made.imaginary ? g_("Add", {made.imaginary, other}) : other;
    }
    return made;
  }
  Complex product(const Complex& x, const Complex& y) { return apply("MatMul", x, y); }
  Complex times(const Complex& x, const Complex& y) { return apply("Mul", x, y); }

  static Complex each(const Complex& x, const std::function<Value*(Value*)>& change) {
    return {change(x.real), x.imaginary ? change(x.imaginary) : nullptr};
  }
  // The last dim as others.
  Complex reshaped(const Complex& x, const Shape& last, size_t dims) {
    Shape shape(x.real->shape().begin(), x.real->shape().end() - static_cast<ptrdiff_t>(dims));
    shape.insert(shape.end(), last.begin(), last.end());
    return each(x, [&](Value* part) { return g_.reshape(part, shape); });
  }
  Complex turned_over(const Complex& x) {
    return each(x, [&](Value* part) { return passes::swapped(g_, part); });
  }

  // j = b j1 + j2, k = k1 + a k2: y[k] = Σ over j2 of w(b, j2 k2) w(n, j2 k1) Σ over j1 of w(a, j1 k1) x[j]
  Complex in_parts(const Complex& x, int64_t a, int64_t b) {
    Complex y = turned_over(reshaped(x, {a, b}, 1));  // [j2, j1]
    y = times(of(y, a), turns(b, a, a * b));          // [j2, k1]
    y = of(turned_over(y), b);                        // [k1, k2]
    return reshaped(turned_over(y), {a * b}, 2);
  }

  // jk = (j² + k² - (k - j)²) / 2
  Complex by_chirp(const Complex& x, int64_t n) {
    const auto m = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * n - 1)));
    std::vector<Number> chirp, around(static_cast<size_t>(m));
    for (int64_t j = 0; j < n; ++j) chirp.push_back(turn(square(j, 2 * n), 2 * n));
    for (int64_t j = 0; j < n; ++j) {
      around[static_cast<size_t>(j)] = std::conj(chirp[static_cast<size_t>(j)]);
      if (j > 0) around[static_cast<size_t>(m - j)] = around[static_cast<size_t>(j)];
    }
    transform(around);
    for (Number& number : around) number /= static_cast<double>(m);
    const Complex once = constant(chirp, {n});
    const Complex room = each(times(x, once), [&](Value* part) {
      return g_("Pad", {part}, {{"pads", std::vector<int64_t>{0, m - n}}, {"axes", std::vector<int64_t>{-1}}});
    });
    Complex y = times(FastFourier(g_, room, false).of(room, m), constant(around, {m}));
    y = FastFourier(g_, y, true).of(y, m);
    const auto last = static_cast<int64_t>(y.real->shape().size()) - 1;
    return times(each(y, [&](Value* part) { return g_.slice(part, last, 0, n); }), once);
  }
  // j² mod n, of numbers whose squares may be large.
  static int64_t square(int64_t j, int64_t n) { return static_cast<int64_t>(static_cast<__int128>(j) * j % n); }

  // Forward, of a power of two.
  static void transform(std::vector<Number>& x) {
    const size_t n = x.size();
    for (size_t i = 1, j = 0; i < n; ++i) {
      size_t bit = n >> 1;
      for (; j & bit; bit >>= 1) j ^= bit;
      j ^= bit;
      if (i < j) std::swap(x[i], x[j]);
    }
    for (size_t length = 2; length <= n; length *= 2)
      for (size_t k = 0; k < length / 2; ++k) {
        const Number w = std::polar(1.0, -2 * M_PI * static_cast<double>(k) / static_cast<double>(length));
        for (size_t i = k; i < n; i += length) {
          const Number u = x[i], v = x[i + length / 2] * w;
          x[i] = u + v;
          x[i + length / 2] = u - v;
        }
      }
  }

  Lowering& g_;
  const DType dtype_;
  const double sign_;
};

}  // namespace

Complex fast_fourier(Lowering& g, const Complex& x, int64_t n, bool inverse) {
  FETTLE_CHECK(n >= 1 && n <= kMostTransformed);
  return FastFourier(g, x, inverse).of(x, n);
}

}  // namespace fettle::ops
