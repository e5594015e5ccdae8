// Schedules by hand, step by step: `example-schedules [NAME…] [--seconds S] [--why] [--program NAME]`.

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "ir/text.h"
#include "schedules/steps.h"

int main(int argc, char** argv) {
  std::vector<std::string> names;
  double seconds = 0.3;
  bool why = false, trace = false;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--seconds" && i + 1 < argc) {
      seconds = std::atof(argv[++i]);
    } else if (arg == "--why") {
      why = true;
    } else if (arg == "--trace") {
      trace = true;
    } else if (arg.starts_with("-")) {
      fmt::print(stderr, "usage: example-schedules [NAME...] [--seconds S] [--why] [--trace]\n");
      return 2;
    } else {
      names.push_back(arg);
    }
  }
  bool right = true;
  size_t found = 0;
  for (const auto& subject : fettle::examples::all_subjects()) {
    if (!names.empty() && std::find(names.begin(), names.end(), subject.name) == names.end()) continue;
    ++found;
    if (why)
      for (const auto& step : subject.steps) fmt::print("{}: {}\n    {}\n", subject.name, step.title, step.why);
    if (trace) {  // of the last step, to be replayed anywhere
      fettle::Schedule s(subject.func);
      s.set_target(std::make_shared<const fettle::Target>(fettle::detect_host(1)));
      if (subject.steps.back().apply(s))
        fmt::print("{}\n{}", fettle::to_text(subject.func), fettle::to_text(s.trace()));
      continue;
    }
    right &= fettle::examples::run_steps(subject, seconds);
  }
  if (found < std::max<size_t>(names.size(), 1)) {
    fmt::print(stderr, "there is no such example\n");
    return 2;
  }
  return right ? 0 : 1;
}
