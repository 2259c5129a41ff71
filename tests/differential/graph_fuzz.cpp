// graph_fuzz: compares random graphs, rewritten and planned in every setup, with the oracle.
// docs/how-to/fuzz-graphs.md.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/cpu_info.hpp"
#include "base/error.hpp"
#include "base/files/file.hpp"
#include "differential/check.hpp"
#include "differential/random_graph.hpp"
#include "differential/shrink.hpp"
#include "ir/text/text.hpp"
#include "kernels/core/limit_isa.hpp"
#include "measure/probes/machine.hpp"
#include "testing/imaginary_device.hpp"

namespace headroom::differential {
namespace {

struct Options {
  std::uint64_t graphs = 1000;
  std::uint64_t seed = 0;
  int failures = 1;
  double seconds = 0;
  std::string device = "cpu";
  std::string isa;
  std::string graph;
  bool only_bodies = false;
  bool prints_only = false;
  bool shrinks = true;
};

void print_tally(const Tally& tally) {
  fmt::print("passes, and in how many runs each rewrote something:\n");
  for (const auto& [name, count] : tally.fired) fmt::print("  {:<28} {:>10}\n", name, count);
  fmt::print("kernels, and for how many steps each was chosen:\n");
  for (const auto& [name, count] : tally.chosen) fmt::print("  {:<28} {:>10}\n", name, count);
  fmt::print("{} programs ran, {} of them tiled; {} plans of graphs as made had a node without a kernel\n",
             tally.programs, tally.tiled, tally.without_kernel);
  if (tally.without_kernel > 0) fmt::print("  {}\n", tally.last_without_kernel);
  fmt::print("{} elements compared, {:.1f}% of them to a tenth of their tensor's largest or closer\n", tally.elements,
             100.0 * static_cast<double>(tally.sharp) / static_cast<double>(std::max<std::int64_t>(1, tally.elements)));
}

/// Shrinks a failing graph and prints it, so that the failure can be reproduced from the text alone.
void report(Checker& checker, const Graph& graph, const CheckOptions& options, const Failure& failure, bool shrinks) {
  const auto [smaller, why] = shrinks ? shrink(checker, graph, options, failure) : std::pair(graph, failure);
  fmt::print("FAILED with seed {}: passes {}, {}\n  {}\n", options.seed, why.passes,
             why.plan.empty() ? "before any plan" : "planned " + why.plan, why.message);
  fmt::print("shrunk from {} to {} nodes; put it in a file for --graph, with --seed {}:\n{}\n", graph.nodes().size(),
             smaller.nodes().size(), options.seed, print(smaller));
  std::fflush(stdout);
}

/// "cpu as avx512_vnni at 0123456789ab": the device of the graphs, and the revision of this program.
std::string description_of(const std::string& device) {
  const std::string revision = describe_machine().build->git_revision;
  return device +
         (device != "cuda" ? fmt::format(" as {} at {}", name_of(detect_cpu_isa()), revision) : " at " + revision);
}

int list_isas() {
  for (const CpuIsa isa : all_cpu_isas())
    if (isa <= detect_cpu_isa()) fmt::print("{}\n", name_of(isa));
  return 0;
}

int fuzz(const Options& options) {
  if (!options.isa.empty()) limit_cpu_isa(*parse_cpu_isa(options.isa));
  // An imaginary device runs the graphs of a CPU.
  const DeviceKind device = options.device == "cuda" ? DeviceKind::kCuda : DeviceKind::kCpu;
  Checker checker(options.device == name_of(kImaginary) ? kImaginary : device);
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed_s = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  int failures = 0;
  std::uint64_t tried = 0;
  const std::uint64_t graphs = options.graph.empty() ? options.graphs : 1;
  while (tried < graphs && failures < options.failures && (options.seconds <= 0 || elapsed_s() < options.seconds)) {
    const std::uint64_t seed = options.seed + tried++;
    const bool is_given = !options.graph.empty();
    const Graph graph = is_given              ? parse_graph(read_file(options.graph))
                        : options.only_bodies ? random_bodies(seed, device)
                                              : random_graph(seed, device);
    if (options.prints_only) {
      fmt::print("{}\n", print(graph));
      continue;
    }
    CheckOptions check{.seed = seed, .only = {}, .all_plans = is_given};
    if (options.only_bodies) check.only = Failure{.passes = "none", .plan = "eager", .message = {}};
    if (const auto failure = checker.check(graph, check)) {
      ++failures;
      report(checker, graph, check, *failure, options.shrinks);
    }
  }
  print_tally(checker.tally());
  fmt::print("{}: {} graphs from seed {} on {} in {:.0f} s, {} failures\n", failures == 0 ? "PASSED" : "FAILED", tried,
             options.seed, description_of(options.device), elapsed_s(), failures);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace headroom::differential

int main(int argc, char** argv) {
  headroom::differential::Options options;
  bool lists_isas = false;
  std::vector<std::string> isas;
  for (const headroom::CpuIsa isa : headroom::all_cpu_isas()) isas.emplace_back(name_of(isa));
  CLI::App app{"Random graphs, rewritten and planned in every setup, against the oracle in double precision."};
  app.add_option("--graphs", options.graphs, "how many to try");
  app.add_option("--seed", options.seed, "of the first graph and its data; the next one has the next seed");
  app.add_option("--failures", options.failures, "stop after so many");
  app.add_option("--seconds", options.seconds, "stop after this time; 0: never");
  app.add_option("--device", options.device, "cpu, cuda or imaginary")
      ->check(CLI::IsMember({"cpu", "cuda", "imaginary"}));
  app.add_option("--isa", options.isa, "use no wider vector units of the CPU than these")->check(CLI::IsMember(isas));
  app.add_flag("--isas", lists_isas, "list those that this CPU has, and try nothing");
  app.add_option("--graph", options.graph, "try the graph in this file instead, under every setup");
  app.add_flag("--bodies", options.only_bodies, "graphs of fused ops alone, run as they are, eagerly");
  app.add_flag("--print", options.prints_only, "print the graphs instead of trying them");
  app.add_flag("!--no-shrink", options.shrinks, "print a graph that fails as it is");
  CLI11_PARSE(app, argc, argv);
  try {
    return lists_isas ? headroom::differential::list_isas() : headroom::differential::fuzz(options);
  } catch (const headroom::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.code());
  }
}
