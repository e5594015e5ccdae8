#include <fmt/format.h>

#include "frontend/comprehension/testing.h"

namespace fettle {
namespace {

TEST(Comprehension, Products) {
  const std::string text = R"(
    # the usual one
    def mm(float(M,K) A, float(K,N) B) -> (C) {
      C(m, n) +=! A(m, k) * B(k, n)
    })";
  Table a = some({5, 7}), b = some({7, 3}), c({5, 3});
  for (int m = 0; m < 5; ++m)
    for (int n = 0; n < 3; ++n)
      for (int k = 0; k < 7; ++k) c(m, n) += a(m, k) * b(k, n);
  expect_makes(text, {{"A", a}, {"B", b}}, {{"C", c}});

  const std::string tmm = "def tmm(float(M,K) A, float(N,K) B) -> C { C(m, n) +=! A(m, kk) * B(n, kk) }";
  Table t = some({3, 7}), d({5, 3});
  for (int m = 0; m < 5; ++m)
    for (int n = 0; n < 3; ++n)
      for (int k = 0; k < 7; ++k) d(m, n) += a(m, k) * t(n, k);
  expect_makes(tmm, {{"A", a}, {"B", t}}, {{"C", d}});
}

// Products of two tensors are what the graph knows as such, whatever the order of their indices.
TEST(Comprehension, ProductsAreContractions) {
  const std::string text = R"(
    def f(float(B,K,M) X, float(N,B,K) Y) -> (O, P) {
      O(n, b, m) +=! X(b, k, m) * Y(n, b, k)
      P(m) +=! X(b, k, m) * Y(n, b, k) where k in 0:2, n in 0:N
    })";
  Table x = some({2, 3, 4}), y = some({5, 2, 3}), o({5, 2, 4}), p({4});
  for (int n = 0; n < 5; ++n)
    for (int b = 0; b < 2; ++b)
      for (int m = 0; m < 4; ++m)
        for (int k = 0; k < 3; ++k) {
          o(n, b, m) += x(b, k, m) * y(n, b, k);
          if (k < 2) p(m) += x(b, k, m) * y(n, b, k);
        }
  expect_makes(text, {{"X", x}, {"Y", y}}, {{"O", o}, {"P", p}});
  std::string ops;
  const auto graph = import_comprehension(text);
  ASSERT_TRUE(graph) << graph.error().to_string();
  for (const Node* node : graph->nodes()) ops += fmt::format("{} ", node->op->name);
  EXPECT_EQ(ops, "fettle.Contraction Transpose fettle.ProductProgram ");
}

// What scales a product of two tensors, or is added to it, is no part of the sum.
TEST(Comprehension, FactorsLeaveSums) {
  const std::string text = R"(
    def f(float alpha, float(M,K) A, float(K,N) B, float(M,N) C, float(M) x, float(K) v) -> (C, D, x) {
      C(m, n) += alpha * A(m, k) * B(k, n) * 2
      D(n, m) +=! A(m, k) * (alpha * B(k, n))
      x(m) += A(m, k) * v(k)
    })";
  Table alpha, a = some({4, 6}), b = some({6, 3}), c = some({4, 3}), x = some({4}), v = some({6});
  alpha.data = {3};
  Table d({3, 4}), made = c, y = x;
  for (int m = 0; m < 4; ++m)
    for (int k = 0; k < 6; ++k) {
      y(m) += a(m, k) * v(k);
      for (int n = 0; n < 3; ++n) {
        made(m, n) += 6 * a(m, k) * b(k, n);
        d(n, m) += 3 * a(m, k) * b(k, n);
      }
    }
  expect_makes(text, {{"alpha", alpha}, {"A", a}, {"B", b}, {"C", c}, {"x", x}, {"v", v}},
               {{"C", made}, {"D", d}, {"x", y}});
  std::string ops;
  const auto graph = import_comprehension(text);
  ASSERT_TRUE(graph) << graph.error().to_string();
  for (const Node* node : graph->nodes()) ops += fmt::format("{} ", node->op->name);
  EXPECT_EQ(ops,
            "fettle.Contraction fettle.MapProgram fettle.Contraction Transpose fettle.MapProgram fettle.Contraction "
            "fettle.MapProgram ");
}

// Ranges that what is added to narrows, and factors that an index moves, stay in the sum.
TEST(Comprehension, OtherFactorsStayInSums) {
  const std::string text = R"(
    def f(float(M,K) A, float(K,N) B, float(K) s, float(2,N) C) -> (C, D) {
      C(m, n) += A(m, k) * B(k, n)
      D(m, n) +=! s(k) * A(m, k) * B(k, n)
    })";
  Table a = some({4, 6}), b = some({6, 3}), s = some({6}), c = some({2, 3}), d({4, 3}), made = c;
  for (int m = 0; m < 4; ++m)
    for (int k = 0; k < 6; ++k)
      for (int n = 0; n < 3; ++n) {
        if (m < 2) made(m, n) += a(m, k) * b(k, n);
        d(m, n) += s(k) * a(m, k) * b(k, n);
      }
  expect_makes(text, {{"A", a}, {"B", b}, {"s", s}, {"C", c}}, {{"C", made}, {"D", d}});
}

TEST(Comprehension, ConvolutionsAndWhatFollows) {
  const std::string text = R"(
    def conv(float(N,C,H,W) I, float(M,C,KH,KW) W1, float(M) B) -> (tmp, O) {
      tmp(n, m, h, w) +=! I(n, c, h + kh, w + kw) * W1(m, c, kh, kw)
      O(n, m, h, w) = fmax(tmp(n, m, h, w) + B(m), 0)
    })";
  Table i = some({2, 3, 6, 5}), w = some({4, 3, 3, 2}), b = some({4}), tmp({2, 4, 4, 4}), o({2, 4, 4, 4});
  for (int n = 0; n < 2; ++n)
    for (int m = 0; m < 4; ++m)
      for (int y = 0; y < 4; ++y)
        for (int x = 0; x < 4; ++x) {
          for (int c = 0; c < 3; ++c)
            for (int ky = 0; ky < 3; ++ky)
              for (int kx = 0; kx < 2; ++kx) tmp(n, m, y, x) += i(n, c, y + ky, x + kx) * w(m, c, ky, kx);
          o(n, m, y, x) = std::max(tmp(n, m, y, x) + b(m), 0.0);
        }
  expect_makes(text, {{"I", i}, {"W1", w}, {"B", b}}, {{"tmp", tmp}, {"O", o}});
}

TEST(Comprehension, RangesOfStridesAndShifts) {
  Table b = some({9}), pooled({4});
  for (int i = 0; i < 4; ++i) pooled(i) = b(2 * i) + b(2 * i + 1);
  expect_makes("def f(float(I) B) -> (A) { A(i) = B(2*i) + B(2*i + 1) }", {{"B", b}}, {{"A", pooled}});
  expect_makes("def f(float(I) B) -> (A) { A(i) +=! B(2*i + k) where k in 0:2 }", {{"B", b}}, {{"A", pooled}});
  // What begins at 1 is a tensor whose first element is that of index 1.
  Table shifted({8});
  for (int i = 0; i < 8; ++i) shifted(i) = b(i + 1) + b(i);
  expect_makes("def f(float(I) B) -> (A) { A(i) = B(i) + B(i - 1) }", {{"B", b}}, {{"A", shifted}});
  Table turned({9});
  for (int i = 0; i < 9; ++i) turned(i) = b(8 - i);
  expect_makes("def f(float(I) B) -> (A) { A(i) = B(I - 1 - i) }", {{"B", b}}, {{"A", turned}});
}

TEST(Comprehension, ReductionsOfEveryKind) {
  Table a = some({4, 6}), sum({4}), product({4}), least({4}), most({4});
  for (int i = 0; i < 4; ++i) {
    product(i) = 1, least(i) = 99, most(i) = -99;
    for (int k = 0; k < 6; ++k) {
      sum(i) += a(i, k), product(i) *= a(i, k);
      least(i) = std::min(least(i), a(i, k)), most(i) = std::max(most(i), a(i, k));
    }
  }
  expect_makes(R"(def f(float(N,M) A) -> (S, P, L, H) {
      S(i) +=! A(i, k)  P(i) *=! A(i, k)
      L(i) min=! A(i, k)  H(i) max=! A(i, k) })",
               {{"A", a}}, {{"S", sum}, {"P", product}, {"L", least}, {"H", most}});
}

TEST(Comprehension, AccumulatesInWhatWasThere) {
  Table a = some({4, 6}), before = some({4}), after = before;
  for (int i = 0; i < 4; ++i)
    for (int k = 0; k < 6; ++k) after(i) += a(i, k);
  // A tensor that no statement defined is an input, too.
  expect_makes("def f(float(N,M) A) -> (S) { S(i) += A(i, k) }", {{"A", a}, {"S", before}}, {{"S", after}});
  expect_makes("def f(float(N,M) A, float(N) S) -> (S) { S(i) += A(i, k) }", {{"A", a}, {"S", before}}, {{"S", after}});
  // Of a part: the rest stays.
  Table part = before;
  for (int i = 1; i < 3; ++i) part(i) = a(i, 0) * 2;
  expect_makes("def f(float(N,M) A, float(N) S) -> (S) { S(i) = 2 * A(i, 0) where i in 1:N-1 }",
               {{"A", a}, {"S", before}}, {{"S", part}});
  // A statement reads what was there before all of it.
  Table left({4});
  for (int i = 0; i < 4; ++i) left(i) = before(std::max(i - 1, 0));
  expect_makes("def f(float(N) S) -> (S) { S(i) = i > 0 ? S(i - 1) : S(i) where i in 0:N }", {{"S", before}},
               {{"S", left}});
}

TEST(Comprehension, IndicesOfDataStayInside) {
  Table lut = some({5, 3}), at({2, 4}, kI32), o({2, 3});
  const int indices[] = {0, 4, 2, 1, 3, -7, 99, 2};
  for (int i = 0; i < 8; ++i) at.data[static_cast<size_t>(i)] = indices[i];
  for (int b = 0; b < 2; ++b)
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 4; ++k) o(b, j) += lut(std::clamp(static_cast<int>(at(b, k)), 0, 4), j);
  expect_makes("def f(float(E,D) LUT, int32(B,L) I) -> (O) { O(b, d) +=! LUT(I(b, l), d) }", {{"LUT", lut}, {"I", at}},
               {{"O", o}});
}

TEST(Comprehension, ProductsOfIndicesAreChecked) {
  Table a = some({5}), squares({3});
  for (int k = 0; k < 3; ++k) squares(k) = a(k * k);
  expect_makes("def f(float(N) A) -> (C) { C(i) = A(i * i) where i in 0:3 }", {{"A", a}}, {{"C", squares}});
}

TEST(Comprehension, ConditionsGuardWhatTheyRead) {
  Table i = some({4}), o({6});
  for (int k = 0; k < 6; ++k) o(k) = k >= 1 && k < 5 ? i(k - 1) : 0;
  expect_makes("def f(float(N) I) -> (O) { O(i) = (i >= 1 && i < N + 1) ? I(i - 1) : 0 where i in 0:N+2 }", {{"I", i}},
               {{"O", o}});
}

TEST(Comprehension, ScalarsLetsAndExistence) {
  Table a = some({3}), s = some({}), o({3}), fill({3});
  for (int i = 0; i < 3; ++i) o(i) = 2 * (a(i) + s()), fill(i) = s();
  expect_makes(
      "def f(float(N) A, float s) -> (O, F) { O(i) = 2 * foo where foo = A(i) + s  F(i) = s where exists A(i) }",
      {{"A", a}, {"s", s}}, {{"O", o}, {"F", fill}});
  Table twelve;
  twelve() = 12;
  twelve.dtype = kI32;
  expect_makes("def f(float(N) A) -> (o) { o = 4 * A.0 }", {{"A", a}}, {{"o", twelve}});
}

TEST(Comprehension, TypesMeet) {
  Table a = some({3}, kU8, 0, 200), b = some({3}, kI16), sum({3}, kI16), wide({3}, kI32), half = some({3}, kF16),
        doubled({3}, kF16), quotient({3}, kI32), rest({3}, kI32), is({3}, kBool);
  Table x({3}, kI32), y({3}, kI32);
  const int xs[] = {7, -7, 5}, ys[] = {2, 2, 0};
  for (int i = 0; i < 3; ++i) {
    x(i) = xs[i], y(i) = ys[i];
    sum(i) = a(i) + b(i), wide(i) = a(i) + 100, doubled(i) = half(i) * 2.5, is(i) = a(i) > 90 || b(i) < 0;
  }
  quotient.data = {3, -4, 0};
  rest.data = {1, 1, 5};
  expect_makes(R"(def f(uint8(N) A, int16(N) B, half(N) H, int32(N) X, int32(N) Y) -> (S, W, D, Q, R, T) {
      S(i) = A(i) + B(i)   W(i) = A(i) + 100   D(i) = H(i) * 2.5
      Q(i) = X(i) / Y(i)   R(i) = X(i) % Y(i)  T(i) = A(i) > 90 || B(i) < 0 })",
               {{"A", a}, {"B", b}, {"H", half}, {"X", x}, {"Y", y}},
               {{"S", sum}, {"W", wide}, {"D", doubled}, {"Q", quotient}, {"R", rest}, {"T", is}});
}

TEST(Comprehension, CallsOfFunctions) {
  const std::string text = R"(
    def mm(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }
    def both(float(N) X) -> (P, M) { P(i) = X(i) + 1  M(i) = X(i) - 1 }
    def f(float(A,B) X, float(B,C) Y, float(D) v) -> (Z, p, m) {
      Q = mm(X, Y)
      Z(i, j) = Q(i, j) * 2
      p, m = both(v)
    })";
  Table x = some({2, 3}), y = some({3, 4}), v = some({5}), z({2, 4}), p({5}), m({5});
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 4; ++j)
      for (int k = 0; k < 3; ++k) z(i, j) += 2 * x(i, k) * y(k, j);
  for (int i = 0; i < 5; ++i) p(i) = v(i) + 1, m(i) = v(i) - 1;
  expect_makes(text, {{"X", x}, {"Y", y}, {"v", v}}, {{"Z", z}, {"p", p}, {"m", m}});
}

TEST(Comprehension, Builtins) {
  Table x({4}), want({4});
  const double xs[] = {0.25, -0.5, 3, -20};
  for (const auto& [name, function] : std::vector<std::pair<std::string, double (*)(double)>>{{"exp", std::exp},
                                                                                              {"tanh", std::tanh},
                                                                                              {"cbrt", std::cbrt},
                                                                                              {"expm1", std::expm1},
                                                                                              {"round", std::round},
                                                                                              {"fabs", std::fabs},
                                                                                              {"asinh", std::asinh},
                                                                                              {"atan", std::atan},
                                                                                              {"exp2", std::exp2},
                                                                                              {"erf", std::erf},
                                                                                              {"trunc", std::trunc},
                                                                                              {"floor", std::floor},
                                                                                              {"ceil", std::ceil},
                                                                                              {"cosh", std::cosh}}) {
    SCOPED_TRACE(name);
    for (int i = 0; i < 4; ++i) x(i) = xs[i], want(i) = function(xs[i]);
    expect_makes("def f(float(N) X) -> (Y) { Y(i) = " + name + "(X(i)) }", {{"X", x}}, {{"Y", want}}, 1e-5);
  }
  Table y({4});
  const double ys[] = {-1, 2, 0.5, -3};
  for (const auto& [name, function] :
       std::vector<std::pair<std::string, double (*)(double, double)>>{{"atan2", std::atan2},
                                                                       {"hypot", std::hypot},
                                                                       {"fmod", std::fmod},
                                                                       {"remainder", std::remainder},
                                                                       {"fmax", std::fmax},
                                                                       {"fmin", std::fmin},
                                                                       {"copysign", std::copysign},
                                                                       {"fdim", std::fdim}}) {
    SCOPED_TRACE(name);
    for (int i = 0; i < 4; ++i) y(i) = ys[i], want(i) = function(xs[i], ys[i]);
    expect_makes("def f(float(N) X, float(N) Y) -> (Z) { Z(i) = " + name + "(X(i), Y(i)) }", {{"X", x}, {"Y", y}},
                 {{"Z", want}}, 1e-5);
  }
}

// --- loops

TEST(ComprehensionLoops, StencilsOverTime) {
  Table a = some({8}), b = a, want = a;
  for (int t = 0; t < 3; ++t) {
    for (int i = 1; i < 7; ++i) b(i) = (want(i - 1) + want(i) + want(i + 1)) * 0.25;
    for (int i = 1; i < 7; ++i) want(i) = (b(i - 1) + b(i) + b(i + 1)) * 0.25;
  }
  expect_makes(R"(def jacobi(float(N) A, float(N) B) -> (A, B) {
      for t in 0:3 {
        B(i) = (A(i - 1) + A(i) + A(i + 1)) * 0.25 where i in 1:N-1
        A(i) = (B(i - 1) + B(i) + B(i + 1)) * 0.25 where i in 1:N-1
      } })",
               {{"A", a}, {"B", a}}, {{"A", want}, {"B", b}}, 1e-6);
}

TEST(ComprehensionLoops, InPlaceInOrder) {
  Table a = some({6, 6}), want = a;
  for (int t = 0; t < 2; ++t)
    for (int i = 1; i < 5; ++i)
      for (int j = 1; j < 5; ++j)
        want(i, j) = (want(i - 1, j) + want(i, j - 1) + want(i, j) + want(i, j + 1) + want(i + 1, j)) * 0.25;
  expect_makes(R"(def seidel(float(N,N) A) -> (A) {
      for t in 0:2 {
        A(i, j) = (A(i-1, j) + A(i, j-1) + A(i, j) + A(i, j+1) + A(i+1, j)) * 0.25 where i in 1:N-1, j in 1:N-1
      } })",
               {{"A", a}}, {{"A", want}}, 1e-6);
}

TEST(ComprehensionLoops, TriangularDomains) {
  Table a = some({5, 5}, kF64);
  for (int i = 0; i < 5; ++i) a(i, i) = 16;
  Table lu = a;
  for (int i = 0; i < 5; ++i) {
    for (int j = 0; j < i; ++j) {
      for (int k = 0; k < j; ++k) lu(i, j) -= lu(i, k) * lu(k, j);
      lu(i, j) /= lu(j, j);
    }
    for (int j = i; j < 5; ++j)
      for (int k = 0; k < i; ++k) lu(i, j) -= lu(i, k) * lu(k, j);
  }
  expect_makes(R"(def lu(double(N,N) A) -> (A) {
      for i in 0:N {
        for j in 0:i {
          A(i, j) += -A(i, k) * A(k, j) where k in 0:j
          A(i, j) = A(i, j) / A(j, j)
        }
        A(i, j) += -A(i, k) * A(k, j) where j in i:N, k in 0:i
      } })",
               {{"A", a}}, {{"A", lu}}, 1e-12);

  Table l = some({5, 5}), b = some({5}), x = b;
  for (int i = 0; i < 5; ++i) l(i, i) = 2;
  for (int i = 0; i < 5; ++i) {
    double s = 0;
    for (int j = 0; j < i; ++j) s += l(i, j) * x(j);
    x(i) = (b(i) - s) / l(i, i);
  }
  expect_makes(R"(def solve(float(N,N) L, float(N) b, float(N) x) -> (x) {
      for i in 0:N {
        s +=! L(i, j) * x(j) where j in 0:i
        x(i) = (b(i) - s) / L(i, i)
      } })",
               {{"L", l}, {"b", b}, {"x", b}}, {{"x", x}}, 1e-6);

  // A statement of its own over a triangle; its index j - 1 is inside only because j is above i.
  Table t = some({6, 6}), made = t;
  for (int i = 0; i < 6; ++i)
    for (int j = i + 1; j < 6; ++j) made(i, j) = 2 * l(i % 5, (j - 1) % 5);
  Table l6({6, 5});
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 5; ++j) l6(i, j) = l(i % 5, j);
  expect_makes("def f(float(N,N) T, float(N,M) L) -> (T) { T(i, j) = 2 * L(i, j - 1) where i in 0:N, j in i+1:N }",
               {{"T", t}, {"L", l6}}, {{"T", made}});
}

// --- what is refused

Diagnostic problem_of(std::string_view text) {
  const auto problems = check_comprehensions(text);
  EXPECT_EQ(problems.size(), 1U) << text;
  return problems.empty() ? Diagnostic{} : problems[0];
}

struct Refused {
  const char* text;
  ErrorCode code;
  const char* where;
  const char* message;
};
class ComprehensionErrors : public testing::TestWithParam<Refused> {};
TEST_P(ComprehensionErrors, SayWhatAndWhere) {
  const Diagnostic problem = problem_of(GetParam().text);
  EXPECT_EQ(problem.code, GetParam().code) << problem.to_string();
  EXPECT_EQ(problem.where, GetParam().where) << problem.message;
  EXPECT_EQ(problem.message, GetParam().message);
}
constexpr auto kText = ErrorCode::E611, kMeaning = ErrorCode::E612, kRange = ErrorCode::E613;
INSTANTIATE_TEST_SUITE_P(
    All, ComprehensionErrors,
    testing::Values(
        Refused{"def f{} {}", kText, "1:6", "\"{\" stands where \"(\" should"},
        Refused{"", kText, "1:1", "the text ends where a function (def name(…) -> (…) { … }) should stand"},
        Refused{"def f(float(N) a) -> (b) { b(i) =+ a(i) }", kText, "1:34", "\"+\" stands where an expression should"},
        Refused{"def f(float(N) a) -> (b) { b(i) = $ }", kText, "1:35", "nothing begins with '$'"},
        Refused{"def f(float(N) a) -> (b) { b(i) = 1x }", kText, "1:35", "\"1x\" is no number"},
        Refused{"def f(a) -> (b) { b(i) = a(i) }", kText, "1:7", "parameter \"a\" has no type (float(M, N) a)"},
        Refused{"def f(int32(N) a) -> (b) { b(i) = a(i + .5) }", kMeaning, "1:39",
                "an index is an integer, and this is float"},
        Refused{"def f(int32 a, float(N) b) -> (c) { c(i) += b(i + j) where j in 0:a, i in 0:10 }", kMeaning, "1:67",
                "a bound is made of sizes and numbers: no tensor can be read in it"},
        Refused{"def f(float(1) a) -> (b) { b(i) = 2*foo where foo = a(i), foo in 1:2 }", kMeaning, "1:59",
                "foo is the name of a value, and no index"},
        Refused{"def f(float(N,K) A) -> (C) { C(i) = A(i, k) }", kMeaning, "1:30",
                "k stands on the right alone: say how to reduce (+=!, *=!, min=! or max=!)"},
        Refused{"def f(float(N) A) -> (C) { C(i, i) = A(i) }", kMeaning, "1:33", "i stands twice on the left"},
        Refused{"def f(float(N) A) -> (C) { A(i) = 2 * A(i) C(i) = A(i) }", kMeaning, "1:28",
                "A is a parameter, which is only changed where it is returned, too"},
        Refused{"def f(float(N) A) -> (C) { C(N) = A(N) }", kMeaning, "1:30",
                "on the left of a statement that is in no loop, names of indices stand, and new ones"},
        Refused{"def f(float(N) A) -> (C) { B(i) = A(i) }", kMeaning, "1:23",
                "C is returned, and no statement defines it"},
        Refused{"def f(float(N) A) -> (C) { C(i) = A(i, i) }", kMeaning, "1:35",
                "A has 1 dims, and 2 indices stand here"},
        Refused{"def f(float(N) A) -> (C) { C(i) = B(i) }", kMeaning, "1:35", "there is no tensor and no function B"},
        Refused{"def f(float(N) A) -> (C) { C(i) = A(i) ? 1 : 2 }", kMeaning, "1:35",
                "a condition is a bool, and this is float; compare it"},
        Refused{"def f(float(N) A, int32(N) B) -> (B) { B(i) = A(i) }", kMeaning, "1:47",
                "B is of int32, and the value is float; cast it"},
        Refused{"def f(float(4) A) -> (C) { C(i) = A(i) where i in 0:5 }", kMeaning, "1:35",
                "index 0 of A goes to 4, and its extent is 4"},
        Refused{"def f(float(4) A) -> (C) { C(i) = A(i * i) where i in 0:3 }", kMeaning, "1:35",
                "index 0 of A goes to 4, and its extent is 4"},
        Refused{"def f(float(N) A) -> (C) { C(i) = A(i - 2) where i in 0:N }", kMeaning, "1:35",
                "index 0 of A begins at -2; state a range: where i in begin:end"},
        Refused{"def f(float(N) A) -> (C) { C(i) +=! A(i + j) }", kRange, "1:28",
                "nothing tells the range of i, j; index 0 of A is i + j: no index of these stands alone"},
        Refused{"def f(float(N) B, int32(1) S) -> (A) { A(i) = B(S(0)*i) }", kRange, "1:40",
                "nothing tells the range of i"},
        Refused{"def f() -> (O) { O(i, j) = 3 }", kRange, "1:18", "nothing tells the range of i, j"},
        Refused{"def f(float(I_0,I_1,I_2) A) -> (O) { O(i) +=! A(i + j, i + j, i + j) }", kRange, "1:38",
                "nothing tells the range of i, j; index 0 of A is i + j, index 1 of A is i + j, index 2 of A is i + j: "
                "no index of these stands alone"},
        Refused{"def f(float(N) x) -> (y) { y = f(x) }", kMeaning, "1:28", "calls are nested more than 64 deep"},
        Refused{"def f(float(N) x) -> (y) { y(i) = x(i) } def f(float(N) x) -> (y) { y(i) = x(i) }", kMeaning, "1:46",
                "there are two functions f"},
        Refused{"def f(float(N) x) -> (y) { y(i) = j0(x(i)) }", ErrorCode::E603, "1:35", "j0 is not supported"},
        Refused{
            "def f(float(N) A) -> (A) { for t in 0:4 { B(t) = A(t) } }", kMeaning, "1:28",
            "what it defines is defined nowhere else: a tensor that loops change must be there before. Define all of "
            "it first, as B(…) = 0 with ranges that are numbers or sizes"},
        Refused{"def g(float(N) x) -> (y) { y(i) = x(i) } def f(float(N) A) -> (D) { D(i) = g(A(i)) }", kMeaning,
                "1:76", "g is a function of whole tensors, whose call stands alone: B = g(A)"},
        Refused{"def f(float(N) A) -> (C) { C(i) = A(i) * x where x = y, y = 2 }", kMeaning, "1:54",
                "y is used before it is defined: put \"y = …\" before this"},
        Refused{"def f(float(N) A) -> (C) { C(i) = A(i) * x where x = x + 1 }", kMeaning, "1:54",
                "x is defined by itself"}));

// What follows from a problem is none of its own.
TEST(Comprehension, EveryProblemIsTold) {
  const auto problems = check_comprehensions(R"(def f(float(N) A) -> (C, D, E) {
  B(i) = A(i, i)
  C(i) = 2 * B(i)
  for t in 0:3 { C(i) = C(i) + 1 }
  D(i) = X(i)
  E(i) = A(i) ? 1 : 2
}
def g(float(N) A) -> (C, D, E, F) { C, D, E = f(A) })");
  std::vector<std::string> where;
  for (const Diagnostic& problem : problems) where.push_back(problem.where);
  EXPECT_EQ(where, (std::vector<std::string>{"2:10", "5:10", "6:10", "8:32"}));
}

// A reduction that begins anew defines all elements, over whatever ranges.
TEST(Comprehension, ReductionsOverTrianglesDefineTensors) {
  const std::string text = R"(
    def f(float(N,M) a) -> (o, p) {
      o(i) +=! a(i, j) where j in 0:i+1
      p(i, k) max=! a(i, j) * a(k, j) where k in 1:N, j in i:i+2, i in 0:N
    })";
  Table a = some({3, 5}), o({3}), p({3, 2});
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < i + 1; ++j) o(i) += a(i, j);
    for (int k = 1; k < 3; ++k) p(i, k - 1) = std::max(a(i, i) * a(k, i), a(i, i + 1) * a(k, i + 1));
  }
  expect_makes(text, {{"a", a}}, {{"o", o}, {"p", p}});
}

TEST(Comprehension, SizesMustAgree) {
  const std::string text = "def f(float(N,NM,M) I) -> (O) { O(i, j) = I(i, i + j, j) }";
  std::string problem;
  EXPECT_EQ(run_comprehension(text, {{"I", some({2, 4, 3})}}, true, &problem).size(), 1U) << problem;
  run_comprehension(text, {{"I", some({2, 3, 3})}}, true, &problem);
  EXPECT_NE(problem.find("1:43: index 1 of I goes to"), std::string::npos) << problem;
}

TEST(Comprehension, FunctionsByName) {
  const std::string text = "def a(float(N) x) -> (y) { y(i) = x(i) } def b(float(N) x) -> (z) { z(i) = x(i) }";
  EXPECT_EQ(*comprehension_names(text), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(import_comprehension(text)->outputs()[0].name, "z");
  EXPECT_EQ(import_comprehension(text, "a")->outputs()[0].name, "y");
  EXPECT_EQ(import_comprehension(text, "a")->function().name, "a");
  EXPECT_EQ(import_comprehension(text)->function().all, (std::vector<std::string>{"a", "b"}));
  const Diagnostic refused = import_comprehension(text, "c").error();
  EXPECT_EQ(refused.to_string().substr(0, 4), "E709");
  EXPECT_NE(refused.message.find("there are: a, b"), std::string::npos);
}

TEST(Comprehension, OneFunctionIsChecked) {
  const std::string text =
      "def a(float(N) x) -> (y) { y(i) = w(i) } def b(float(N) x) -> (z) { z(i) = x(i) } "
      "def c(float(N) x) -> (y) { y = a(x) }";
  EXPECT_EQ(check_comprehensions(text).size(), 1U);
  EXPECT_EQ(check_comprehensions(text, "a").size(), 1U);
  EXPECT_EQ(check_comprehensions(text, "b").size(), 0U);
  EXPECT_EQ(check_comprehensions(text, "c").size(), 1U);  // of what it calls
  ASSERT_EQ(check_comprehensions(text, "d").size(), 1U);
  EXPECT_EQ(check_comprehensions(text, "d")[0].code, ErrorCode::E709);
}

}  // namespace
}  // namespace fettle
