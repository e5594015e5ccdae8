// Loop programs and traces as text.

#include "hostile/kinds.h"
#include "ir/text.h"
#include "schedule/schedule.h"
#include "schedule/trace/trace.h"

namespace fettle::hostile {
namespace {

std::string repeated(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

Kind loops_kind(std::string name, std::vector<std::string> texts) {
  const int variants = static_cast<int>(texts.size());
  return {std::move(name), variants, [texts = std::move(texts)](int variant, const std::filesystem::path&) -> Result<> {
            FETTLE_TRY(const Func func, parse_func(texts[static_cast<size_t>(variant)]));
            return {};
          }};
}

/// Applied to one loop over 64 elements, block "B".
Kind trace_kind(std::string name, std::vector<std::string> texts, bool json = false) {
  const int variants = static_cast<int>(texts.size());
  return {std::move(name), variants,
          [json, texts = std::move(texts)](int variant, const std::filesystem::path&) -> Result<> {
            const std::string& text = texts[static_cast<size_t>(variant)];
            FETTLE_TRY(const ParsedTrace trace, json ? trace_from_json(text) : parse_trace(text));
            FETTLE_TRY(const Func func, parse_loops("for i in 64: B[i] = A[i]"));
            Schedule schedule(func);
            return replay(schedule, trace);
          }};
}

std::string func(const std::string& params, const std::string& body) {
  return "func f(" + params + "):\n  " + body + "\n";
}

constexpr const char* kParams = "A: f32[8], B: f32[8] output";

std::string step(const std::string& text) {
  return "b0 = get_block(name=\"B\")\nl1 = get_loops(block=b0)\n" + text + "\n";
}

}  // namespace

std::vector<Kind> text_kinds() {
  return {
      loops_kind("a program that is none", {"", "x", "func", std::string(1 << 20, '(')}),
      loops_kind("a program with bytes that are no text",
                 {std::string("func f(\0):", 10), "func f(\xff\xfe):", std::string(4096, '\x01')}),
      loops_kind("parentheses without end", {func(kParams, "B[0] = " + std::string(100'000, '(')),
                                             func(kParams, "B[0] = " + repeated("-", 100'000) + "1"),
                                             func(kParams, "B[" + repeated("A[", 100'000))}),
      loops_kind("loops without end", {func(kParams, repeated("for i in 8: ", 100'000) + "B[0] = 1.0"),
                                       func(kParams, repeated("if 1 < 2: ", 100'000) + "B[0] = 1.0"),
                                       "func f(A: f32[8]):\n" +
                                           [] {
                                             std::string text;
                                             for (int i = 0; i < 3000; ++i)
                                               text += std::string(static_cast<size_t>(2 * i + 2), ' ') + "for i" +
                                                       std::to_string(i) + " in 2:\n";
                                             return text;
                                           }()}),
      loops_kind("numbers that are none",
                 {func(kParams, "B[0] = 1e999999999999"), func(kParams, "B[99999999999999999999] = 1.0"),
                  func("A: f32[99999999999999999999]", "A[0] = 1.0"), func("A: f32[-1]", "A[0] = 1.0")}),
      loops_kind("names that nobody made",
                 {func(kParams, "B[i] = 1.0"), func(kParams, "C[0] = 1.0"), func(kParams, "B[0] = i + 1.0")}),
      loops_kind("wrong ranks",
                 {func(kParams, "B[0, 0] = 1.0"), func(kParams, "B[] = 1.0"), func(kParams, "B[0] = A[0, 0]")}),
      loops_kind("wrong types", {func(kParams, "B[A[0]] = 1.0"), func("A: f33[8]", "A[0] = 1.0"),
                                 func("A: f32[8], B: i32[8] output", "B[0] = A[0]")}),
      loops_kind("names made twice",
                 {func("A: f32[8], A: f32[8]", "A[0] = 1.0"),
                  func(kParams, "block A(v: spatial[8] = 0): B[v] = 1.0\n  block A(v: spatial[8] = 0): B[v] = 1.0"),
                  func("A: f32[8], B: f32[8] output, B: f32[8] output", "B[0] = 1.0")}),
      trace_kind("a trace that is none", {"x", "= = =", std::string(1 << 20, '('), "split("}),
      trace_kind("a trace with bytes that are no text",
                 {std::string("b0 = get_block(\0)", 16), "\xff\xfe", std::string(4096, '\x01')}),
      trace_kind("a primitive that nobody knows",
                 {"frobnicate()", "b = get_blok(name=\"B\")", std::string(1 << 16, 'f') + "()"}),
      trace_kind("a block that is not there", {"b0 = get_block(name=\"C\")", "b0 = get_block(name=\"\")",
                                               "b0 = get_block(name=\"" + std::string(1 << 20, 'b') + "\")"}),
      trace_kind("an argument that is missing or unknown",
                 {"b0 = get_block()", "b0 = get_block(nam=\"B\")", "b0 = get_block(name=\"B\", name=\"B\")"}),
      trace_kind("an argument of another type",
                 {"b0 = get_block(name=1)", "b0 = get_block(name=[\"B\"])", step("parallel(loop=\"i\")")}),
      trace_kind("a result of no step",
                 {"l1 = get_loops(block=b0)", "l1 = get_loops(block=l1)", step("parallel(loop=l7)")}),
      trace_kind("factors that are none",
                 {step("l2, l3 = split(loop=l1, factors=[0, 64])"), step("l2, l3 = split(loop=l1, factors=[-7, 64])"),
                  step("l2, l3 = split(loop=l1, factors=[9223372036854775807, 2])"),
                  step("l2, l3 = split(loop=l1, factors=[])")}),
      trace_kind("lists without end", {"b0 = get_block(name=" + std::string(100'000, '['),
                                       step("l2, l3 = split(loop=l1, factors=" + repeated("[1, ", 100'000)),
                                       step("l2, l3 = split(loop=l1, factors=[" + repeated("1, ", 100'000) + "1])")}),
      trace_kind("a JSON trace that is none",
                 {"", "{", "[[[[", "{\"steps\": 3}", std::string(100'000, '['), repeated("{\"a\":", 100'000)}, true),
      trace_kind("a JSON trace of steps that are none",
                 {"[{}]", "[1]", "{\"steps\": [{\"primitive\": \"split\"}]}", "[[\"split\", {\"loop\": 99}]]"}, true),
  };
}

}  // namespace fettle::hostile
