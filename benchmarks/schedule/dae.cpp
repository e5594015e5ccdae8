// Latency hiding on the simulated accelerator: ResNet-18, in simulated cycles, so the same on every machine.

#include <limits>

#include <fmt/format.h>

#include "dae/experiment.h"
#include "schedule/subjects.h"
#include "target/accelerator.h"

namespace fettle::bench {

void add_latency_hiding(Report& report, const ScheduleBenchOptions&) {
  const AcceleratorUnits units = *accelerator_target().accelerator;
  constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
  dae::Timing one, unbound, two;
  bool complete = true;
  for (const DaeCase& c : dae_cases()) {
    const auto f = measure_dae_case(c);
    complete &= f.has_value();
    if (f) {
      for (const auto& [sum, t] :
           {std::pair{&one, &f->one}, std::pair{&unbound, &f->unbound}, std::pair{&two, &f->two}}) {
        sum->cycles += t->cycles;
        sum->macs += t->macs;
      }
    }
    report.add(fmt::format("accelerator, ResNet-18 {}: two virtual threads", c.layer.name),
               f ? 100 * f->two.utilisation(units) : kMissing, "% of peak");
  }
  const auto use = [&](const dae::Timing& t) { return complete ? 100 * t.utilisation(units) : kMissing; };
  report.add("accelerator, ResNet-18 C2-C12: one thread", use(one), "% of peak");
  report.add("accelerator, ResNet-18 C2-C12: cut for two threads, without them", use(unbound), "% of peak");
  report.add("accelerator, ResNet-18 C2-C12: two virtual threads", use(two), "% of peak", at_least(84));
}

}  // namespace fettle::bench
