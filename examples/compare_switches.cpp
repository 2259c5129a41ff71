// What switches are worth to a network on this machine: its time against the baseline's, how far its output is from the
// baseline's, and the launches that take longest.
//
//     compare_switches [MODEL [SWITCHES [DEVICE]]]        compare_switches fashion-flux fast cpu

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "inputs.hpp"

namespace {

constexpr headroom::PassSize kSize{.batch = 2, .height = 256, .width = 256, .text_tokens = 16};
constexpr int kRuns = 9;

/// Prints the five launches that take longest, by the median over runs.
void print_slowest(headroom::Session& session, const std::string& switches) {
  std::map<const headroom::Launch*, std::vector<double>> times;
  session.observe_launches([&](const headroom::Launch& launch, double ms) { times[&launch].push_back(ms); });
  for (int run = 0; run < kRuns; ++run) session.run();
  session.observe_launches({});

  std::vector<std::pair<double, const headroom::Launch*>> slowest;
  double total = 0;
  for (const auto& [launch, ms] : times) total += slowest.emplace_back(median(ms), launch).first;
  std::ranges::sort(slowest, std::greater());
  std::printf("%s: %zu launches, %.3f ms one by one, of that\n", switches.c_str(), slowest.size(), total);
  slowest.resize(std::min<std::size_t>(slowest.size(), 5));
  for (const auto& [ms, launch] : slowest)
    std::printf("  %8.3f ms  %-44s %-10s %s\n", ms, launch->path.c_str(), launch->op.c_str(), launch->kernel.c_str());
}

void compare(const std::string& model, const std::string& switches, const std::string& device) {
  const headroom::Component network(headroom::Device(device), model);
  const std::string pass = network.passes().front().name;
  const headroom::Shapes shapes = network.input_shapes(pass, kSize);
  headroom::Session baseline(network.compile(pass, shapes));
  headroom::Session optimized(network.compile(pass, shapes, switches));
  set_noise(baseline);
  set_noise(optimized);
  baseline.run();
  optimized.run();

  std::vector<double> baseline_ms, optimized_ms;
  for (int run = 0; run < kRuns; ++run) {  // alternately, so that both meet the same moods of the machine
    baseline_ms.push_back(run_ms(baseline));
    optimized_ms.push_back(run_ms(optimized));
  }
  std::printf("baseline: %.3f ms\n", median(baseline_ms));
  std::printf("%s: %.3f ms, %.2f times as fast\n", switches.c_str(), median(optimized_ms),
              median(baseline_ms) / median(optimized_ms));
  for (const headroom::TensorInfo& output : optimized.pass().outputs())
    std::printf("%s: relative error %.2e\n", output.name.c_str(),
                headroom::relative_l2(optimized.output(output.name), baseline.output(output.name)));
  print_slowest(baseline, "baseline");
  print_slowest(optimized, switches);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> given(argv + 1, argv + argc);
  const auto argument = [&](std::size_t i, const char* otherwise) { return i < given.size() ? given[i] : otherwise; };
  try {
    compare(argument(0, "fashion-flux"), argument(1, "fast"), argument(2, "auto"));
  } catch (const headroom::Error& error) {
    std::fprintf(stderr, "compare_switches: %s\n", error.what());
    return static_cast<int>(error.kind());
  }
  return 0;
}
