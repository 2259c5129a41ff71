// A benchmark whose speed is planted: it replaces a headroom binary in tests of `bench --against`. Linked several
// times, each with a kSlowdown of its own in percent; it takes any arguments and prints a result file, as `bench --json`
// does. Its work is real (a chain of multiplications of about 0.4 ms) and really timed.

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text/json.hpp"
#include "measure/probes/machine.hpp"
#include "measure/results/result.hpp"
#include "measure/statistics/trials.hpp"

extern const int kSlowdown;  // defined by each program's own source

int main() {
  using namespace headroom;
  constexpr int kChain = 100'000;
  const int length = kChain + kChain / 100 * kSlowdown;
  volatile double sink = 1;
  const auto work = [&] {
    double value = sink;
    for (int i = 0; i < length; ++i) value *= 1.0000001;  // each waits for the one before
    sink = value > 1e300 ? 1 : value;
  };
  ResultFile file;
  file.created = utc_now();
  file.machine = describe_machine();
  file.results.push_back(
      {.id = "spin",
       .name = "spin",
       .subject = {.kind = SubjectKind::kKernel, .name = "spin", .request = {{"length", kChain}}},
       .source = {.name = "headroom", .version = "test"},
       .configuration =
           {.device = "cpu", .asked = {}, .applied = {}, .declined = {}, .threads = 1, .baseline_dtype = {}},
       .trials = {make_series("launch", measure_callable(work, {.trials = 40, .min_trial_ms = 1}))},
       .memory = {},
       .quality = {},
       .tags = {},
       .plan = {}});
  fmt::print("{}\n", dump_json(to_json(file)));
  return 0;
}
