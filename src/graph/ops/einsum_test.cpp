// Einsums of many operands, against sums over all letters in plain C++.

#include <map>

#include "graph/ops/general_testing.h"

namespace fettle {
namespace {

class Einsums : public GeneralOps {
 protected:
  /// Operands whose letters have these extents; `ones`: letters that have 1 in operands where coins say so.
  Case random_case(const std::string& equation, const std::map<char, int64_t>& extents, const std::string& ones = "") {
    Case c{.op = "Einsum", .attrs = {{"equation", equation}}};
    const std::string operands = equation.substr(0, equation.find("->"));
    for (size_t begin = 0; begin <= operands.size();) {
      const size_t end = std::min(operands.find(',', begin), operands.size());
      Ints shape;
      for (const char letter : operands.substr(begin, end - begin))
        shape.push_back(ones.find(letter) != std::string::npos && coin() ? 1 : extents.at(letter));
      c.inputs.push_back({random_array(shape, kF32, -2, 2), kF32});
      begin = end + 1;
    }
    return c;
  }
  static Array reference(const Case& c, const std::map<char, int64_t>& extents) {
    const std::string equation = c.attrs.get_string("equation", "");
    const std::string result = equation.substr(equation.find("->") + 2);
    std::string letters;
    Ints all, shape;
    for (const auto& [letter, extent] : extents) {
      letters += letter;
      all.push_back(extent);
    }
    for (const char letter : result) shape.push_back(extents.at(letter));
    const auto at = [&](const std::string& list, const Ints& point, const Ints& of) {
      Ints place;
      for (size_t d = 0; d < list.size(); ++d) place.push_back(of[d] == 1 ? 0 : point[letters.find(list[d])]);
      return place;
    };
    Array want(shape);
    for_each_index(all, [&](const Ints& point) {
      double product = 1;
      size_t begin = 0;
      for (const Input& input : c.inputs) {
        const size_t end = std::min(equation.find(',', begin), equation.find("->", begin));
        product *= input.array(at(equation.substr(begin, end - begin), point, input.array.shape));
        begin = end + 1;
      }
      want(at(result, point, shape)) += product;
    });
    return want;
  }
};

TEST_F(Einsums, OfManyOperands) {
  const std::map<char, int64_t> extents{{'a', 2}, {'b', 3}, {'c', 4}, {'d', 2}, {'e', 3}};
  for (const char* equation : {"ab,bc,cd,de->ae", "ab,cb,db,eb->abcde", "abc,cd,e->bd", "ab,ac,ad,ae->",
                               "aab,bc,cdd,e->ea", "a,b,c,d,e->edcba", "ab,ab,bc,cde->ce", "abc,abc,abc,de->ad"}) {
    SCOPED_TRACE(equation);
    const Case c = random_case(equation, extents);
    check(c, {reference(c, extents)});
  }
}

TEST_F(Einsums, OfTwoOperands) {
  const std::map<char, int64_t> extents{{'a', 2}, {'b', 3}, {'c', 4}, {'d', 5}, {'e', 3}};
  const std::pair<const char*, bool> equations[] = {
      {"abc,cd->abd", true},     {"abc,acd->abd", true},   {"abc,adc->abd", true},    {"bacd,bead->baec", true},
      {"abc,dc->dab", true},     {"ab,ac->bc", true},      {"abcd,cde->abe", true},   {"abcd,aecd->aeb", true},
      {"abdc,abed->abce", true}, {"bac,ace->abe", true},   {"abc,ace->bae", false},   {"abc,dec->adbe", false},
      {"abc,cd->ad", false},     {"aab,bc->ac", false},    {"ab,b->a", false},        {"ab,cd->abcd", false},
      {"abcd,ace->bde", false},  {"dabc,eabc->aed", true}, {"acbd,aebd->acbe", false}};
  for (const auto& [equation, is_product] : equations) {
    SCOPED_TRACE(equation);
    std::map<char, int64_t> used;
    for (const char letter : std::string(equation))
      if (extents.contains(letter)) used[letter] = extents.at(letter);
    const Case c = random_case(equation, used);
    check(c, {reference(c, used)});
    EXPECT_EQ(has_op(optimized(c), "MatMul"), is_product);
  }
}

TEST_F(Einsums, OfManyOperandsWithNothing) {
  const std::map<char, int64_t> extents{{'a', 2}, {'b', 0}, {'c', 4}};
  for (const char* equation : {"ab,bc,c->a", "ab,bc,c->b"}) {
    const Case c = random_case(equation, extents);
    check(c, {reference(c, extents)});
  }
}

// Each product of two is a node, and the least work comes first.
TEST_F(Einsums, AreProductsOfTwo) {
  const Case c = random_case("ab,bc,cd->ad", {{'a', 9}, {'b', 9}, {'c', 9}, {'d', 1}});
  const Graph graph = optimized(c);
  ASSERT_EQ(graph.nodes().size(), 2u) << to_text(graph);
  EXPECT_EQ(graph.nodes()[0]->inputs[1], graph.find_input("x2"));
  EXPECT_EQ(graph.nodes()[1]->inputs[0], graph.find_input("x0"));
}

TEST_F(Einsums, OnesBroadcast) {
  const std::map<char, int64_t> extents{{'a', 2}, {'b', 3}, {'c', 4}};
  for (int i = 0; i < 6; ++i) {
    Case c = random_case("abc,abc,abc,abc->ca", extents, "abc");
    c.inputs[0].array = random_array({2, 3, 4}, kF32, -2, 2);
    Graph graph = optimized(c);
    EXPECT_EQ(graph.outputs()[0].value->extents(), (Ints{4, 2}));
    const Array want = reference(c, extents);
    check_fixed(c, {want});
  }
}

}  // namespace
}  // namespace fettle
