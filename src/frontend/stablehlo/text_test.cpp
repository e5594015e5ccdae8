#include <gtest/gtest.h>

#include <string>

#include "base/testing.h"
#include "frontend/stablehlo/read.h"

namespace fettle::stablehlo {
namespace {

Module read(std::string_view text) {
  auto module = parse_text(text, "test.mlir");
  EXPECT_TRUE(module) << (module ? "" : module.error().to_string());
  return module ? *std::move(module) : Module();
}

std::string error_of(std::string_view text, const Limits& limits = {}) {
  const auto module = parse_text(text, "test.mlir", limits);
  return module ? "none" : module.error().to_string();
}

// A function of one operator without operands, with the attribute.
std::string with_attribute(std::string_view attribute) {
  return "\"func.func\"() <{function_type = () -> (), sym_name = \"main\"}> ({\n  \"test.op\"() <{a = " +
         std::string(attribute) + "}> : () -> ()\n}) : () -> ()\n";
}

Attribute attribute(std::string_view text) {
  const Module module = read(with_attribute(text));
  if (module.functions.size() != 1 || module.functions[0].body.ops.size() != 1) return {};
  return module.functions[0].body.ops[0].attributes.at(0).second;
}

constexpr std::string_view kWhile = R"("builtin.module"() <{sym_name = "m"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<4xf32>) -> tensor<4xf32>, res_attrs = [{jax.result_info = "r"}],
      sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<4xf32>):
    %0 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %1:2 = "stablehlo.while"(%0, %arg0) ({
    ^bb0(%arg1: tensor<i32>, %arg2: tensor<4xf32>):
      %2 = "stablehlo.compare"(%arg1, %0) <{comparison_direction = #stablehlo<comparison_direction LT>}>
          : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%2) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg1: tensor<i32>, %arg2: tensor<4xf32>):
      "stablehlo.return"(%arg1, %arg2) : (tensor<i32>, tensor<4xf32>) -> ()
    }) : (tensor<i32>, tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>)
    "func.return"(%1#1) : (tensor<4xf32>) -> ()
  }) : () -> ()
}) {n = 1 : i32} : () -> ()
)";

TEST(StableHloText, ReadsFunctionsRegionsAndValues) {
  const Module module = read(kWhile);
  EXPECT_EQ(module.name, "m");
  const Function* main = module.find("main");
  ASSERT_TRUE(main);
  EXPECT_TRUE(main->is_public);
  EXPECT_EQ(main->result_attributes.at(0).at(0).first, "jax.result_info");
  ASSERT_EQ(main->body.ops.size(), 3u);
  const Op& loop = main->body.ops[1];
  EXPECT_EQ(loop.name, "stablehlo.while");
  ASSERT_EQ(loop.regions.size(), 2u);
  EXPECT_EQ(loop.regions[0].blocks[0].ops[0].operands[1], main->body.ops[0].results[0]);  // of the function around it
  EXPECT_EQ(main->body.ops[2].operands[0], loop.results[1]);
  EXPECT_EQ(loop.location, "line 6, column 12");
  EXPECT_EQ(loop.operand_types[1].to_string(), "tensor<4xf32>");
}

TEST(StableHloText, PrintsWhatItReadsAgain) {
  const std::string once = to_text(read(kWhile));
  EXPECT_EQ(to_text(read(once)), once);
  EXPECT_NE(once.find("%2, %3 = \"stablehlo.while\"(%1, %0) ({"), std::string::npos) << once;
}

// Properties that are not known, and attributes, are in one order, and none stands in both.
TEST(StableHloText, PropertiesAndAttributesOfAModuleAreOne) {
  const std::string text = "\"builtin.module\"() <{z = 1 : i32}> ({\n}) {a = 2 : i32} : () -> ()\n";
  const Module module = read(text);
  ASSERT_EQ(module.attributes.size(), 2u);
  EXPECT_EQ(module.attributes[0].first, "a");
  EXPECT_EQ(to_text(read(to_text(module))), to_text(module));
  const auto twice = parse_text("\"builtin.module\"() <{a = 1 : i32}> ({\n}) {a = 2 : i32} : () -> ()\n", "t");
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code, ErrorCode::E602);
}

TEST(StableHloText, ReadsEveryKindOfAttribute) {
  for (const std::string_view text :
       {"true",
        "-3 : i64",
        "0.5 : f64",
        "\"a\\22\\0Ab\"",
        "array<i64: 1, -2>",
        "array<i64>",
        "array<i1: true, false>",
        "array<f64: 0.5>",
        "[1 : i64, \"x\"]",
        "{b = 1 : i64, \"c d\" = \"x\"}",
        "@f",
        "@\"a b\"::@g",
        "dense<1> : tensor<2x3xi32>",
        "dense<[[1, 2], [3, 4]]> : tensor<2x2xui8>",
        "dense<[true, false]> : tensor<2xi1>",
        "dense<> : tensor<0x2xf32>",
        "dense<[(0.5, 1.0), (2.0, -3.0)]> : tensor<2xcomplex<f32>>",
        "dense<(0.5, 1.0)> : tensor<7xcomplex<f64>>",
        "dense<[0.5, 0x7FC00001]> : tensor<2xf32>",
        "dense<0xFF80> : tensor<bf16>",
        "dense<18446744073709551615> : tensor<ui64>",
        "dense<[0x38, 0x30]> : tensor<2xf8E4M3FN>",
        "dense<[0x38, 0x30]> : tensor<2xf8E3M4>",
        "#stablehlo<precision HIGHEST>",
        "#stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = "
        "[2], "
        "rhs_contracting_dimensions = [1]>",
        "#stablehlo.conv<[b, f, 0, 1]x[0, 1, i, o]->[b, 0, 1, f]>",
        "#stablehlo.channel_handle<handle = 1, type = 2>",
        "#stablehlo.result_accuracy<atol = 0.0, rtol = 0.5, ulps = 2, mode = #stablehlo<result_accuracy_mode "
        "TOLERANCE>>",
        "#stablehlo.dot_algorithm<lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, "
        "lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 3, "
        "allow_imprecise_accumulation = false>",
        "#sdy.sharding<@mesh, [{}, {\"x\"}]>",
        "i32",
        "tensor<2x?xf32, #stablehlo.bounds<?, 4>>",
        "tensor<*xf32>",
        "() -> (tensor<f32>, !stablehlo.token)",
        "(f32) -> tuple<tensor<0x1xi4>, index>",
        "tensor<2x!quant.uniform<i8:f32, 0.5:-3>>",
        "tensor<2x!quant.uniform<u8<0:200>:f32:0, {0.5, 0.25:7}>>",
        "tensor<4x2x!quant.uniform<i8:f32:{0:2, 1:1}, {{0.5, 0.25:7}, {1.0, 2.0}}>>",
        "tensor<3xf6E2M3FN>"}) {
    const std::string once = to_text(read(with_attribute(text)));
    EXPECT_NE(once.find("a = " + std::string(text) + "}>"), std::string::npos) << text << "\n" << once;
    EXPECT_EQ(to_text(read(once)), once);
  }
}

TEST(StableHloText, ElementsAreWhatTheirTextSays) {
  const auto elements = [](std::string_view text) {
    const Attribute found = attribute(text);
    const auto* dense = found.get_if<DenseElements>();
    return dense ? to_doubles(dense->data) : std::vector<double>();
  };
  EXPECT_EQ(elements("dense<[1.5, 0x40000000]> : tensor<2xf32>"), (std::vector<double>{1.5, 2}));
  EXPECT_EQ(elements("dense<\"0x0000803F00000040\"> : tensor<2xf32>"), (std::vector<double>{1, 2}));
  EXPECT_EQ(elements("dense<\"0x05\"> : tensor<4xi1>"), (std::vector<double>{1, 0, 1, 0}));  // packed
  EXPECT_EQ(elements("dense<[0.5, 1.0]> : tensor<2xf8E3M4>"), (std::vector<double>{0x20, 0x30}));
  EXPECT_EQ(elements("dense<[7, -8]> : tensor<2xi4>"), (std::vector<double>{7, -8}));
  EXPECT_EQ(elements("dense<[3, 3]> : tensor<2xi8>"), std::vector<double>{3});  // a splat
  EXPECT_EQ(elements("dense<(1.0, 2.0)> : tensor<9xcomplex<f32>>"), (std::vector<double>{1, 2}));
}

TEST(StableHloText, AliasesLocationsAndResourcesMayStandLater) {
  const Module module = read(R"(#map = dense_resource<big> : tensor<2xf32>
!t = tensor<2xf32>
"func.func"() <{function_type = () -> (), sym_name = "main"}> ({
  %0 = "stablehlo.constant"() <{value = #map}> : () -> !t loc(#loc2)
  "func.return"() : () -> () loc(unknown)
}) : () -> ()
#loc1 = loc("model.py":7:3)
#loc2 = loc(fused<"x">["add"(#loc1), #loc1])

{-#
  dialect_resources: {
    builtin: {
      big: "0x040000000000803F00000040"
    }
  }
#-}
)");
  ASSERT_EQ(module.functions.size(), 1u);
  const Op& constant = module.functions[0].body.ops.at(0);
  EXPECT_EQ(constant.location, "add (model.py:7:3)");
  EXPECT_EQ(to_doubles(find_attribute(constant.attributes, "value")->get_if<DenseElements>()->data),
            (std::vector<double>{1, 2}));
  EXPECT_EQ(module.functions[0].body.ops.at(1).location, "line 5, column 3");
}

TEST(StableHloText, ErrorsSayWhereAndWhatIsExpected) {
  const auto says = [](std::string_view text, std::string_view part) {
    EXPECT_NE(error_of(text).find(part), std::string::npos) << text << "\n" << error_of(text);
  };
  says("", "expected 'module'");
  says("hello", "test.mlir, line 1, column 1");
  says(with_attribute("dense<[1, 2]> : tensor<3xi32>"), "expected 3 elements before this");
  says(with_attribute("dense<1> : tensor<?xi32>"), "whose extents are not known");
  says(with_attribute("\"no end"), "line 2, column 21");
  says(with_attribute("#stablehlo.dot<depth = 1>"), "expected a field of #stablehlo.dot");
  says(with_attribute("1 : i64, a = 2 : i64"), "expected attribute 'a' but once");
  says(with_attribute("dense_resource<gone> : tensor<2xf32>"), "does not have the resource 'gone'");
  says(with_attribute("dense_resource<__elided__> : tensor<2xf32>"), "left the numbers out");
  const auto says_of_operator = [&](const std::string& op, std::string_view part) {
    says("func.func @main(%x: tensor<f32>) -> tensor<f32> {\n  %0 = " + op + " %x : tensor<f32>\n}", part);
  };
  says_of_operator("stablehlo.frobnicate", "stablehlo.frobnicate: there is no such operator");
  says_of_operator("arith.constant", "the dialect arith is not read");
  says_of_operator("mhlo.add", "--hlo-legalize-to-stablehlo");
  says_of_operator("stablehlo.gather", "print it generically");
  says(with_attribute("\"x\"}> {b} : () -> ()\n\"stablehlo.add\"(%x, %x) <{c"), "no value %x is there before this");
}

TEST(StableHloText, HostileTextIsRefused) {
  const auto refused = [](const std::string& text, std::string_view part = "E608", const Limits& limits = {}) {
    const std::string error = error_of(text, limits);
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  const auto repeated = [](std::string_view part, int n) {
    std::string text;
    for (int i = 0; i < n; ++i) text += part;
    return text;
  };
  refused(with_attribute(repeated("[", 100'000)));
  refused(with_attribute(repeated("{a=", 100'000)));
  refused(with_attribute(repeated("tuple<", 100'000)));
  refused(with_attribute(repeated("complex<", 100'000)));
  refused(repeated("\"func.func\"() ({", 100'000));
  refused(with_attribute("tensor<" + repeated("2x", 65) + "f32>"));
  refused(with_attribute("tensor<9999999999999xf32>"));
  refused(with_attribute("dense<1.0> : tensor<1000000x1000000xf32>"));
  refused(with_attribute("dense<[1.0]> : tensor<1000000000xf32>"), "expected 1000000000 elements");
  refused(with_attribute("dense<\"0x00\"> : tensor<1000000000xf32>"), "instead of 4000000000");
  refused("#a = [#a, #a]\n" + with_attribute("#a"));
  std::string doubling = "#a0 = [1, 2]\n";
  for (int i = 1; i < 60; ++i)
    doubling += "#a" + std::to_string(i) + repeated(" = [#a" + std::to_string(i - 1), 1) + ", #a" +
                std::to_string(i - 1) + "]\n";
  refused(doubling + with_attribute("#a59"));
  refused(
      "#loc = loc(#loc)\n\"func.func\"() <{function_type = () -> (), sym_name = \"main\"}> ({\n\"a.b\"() : () -> () "
      "loc(#loc)}) : () -> ()");
  Limits few;
  few.nodes = 2;
  refused(std::string(kWhile), "E608", few);
}

}  // namespace
}  // namespace fettle::stablehlo
