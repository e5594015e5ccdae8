#include "database/workload.h"

#include "ir/compare.h"
#include "ir/text.h"

namespace fettle {

std::string Workload::name() const {
  const size_t begin = text.find("func ");
  if (begin == std::string::npos) return {};
  const size_t end = text.find('(', begin);
  return text.substr(begin + 5, end == std::string::npos ? end : end - begin - 5);
}

Workload make_workload(const Func& func) { return {to_text(func), canonical_hash(func)}; }

Result<Workload> parse_workload(std::string_view text) {
  FETTLE_TRY(const Func func, parse_func(text));
  return make_workload(func);
}

bool same_workload(const Workload& a, const Workload& b) {
  if (a.hash != b.hash) return false;
  if (a.text == b.text) return true;
  const auto func_a = parse_func(a.text), func_b = parse_func(b.text);
  return func_a && func_b && structural_equal(*func_a, *func_b);
}

TaskKey make_task_key(const Func& func, const Target& target, int threads, std::string versions) {
  return {make_workload(func), target.feature_key(), target.fingerprint(), threads, std::move(versions)};
}

}  // namespace fettle
