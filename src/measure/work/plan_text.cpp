#include "measure/work/plan_text.hpp"

#include <fmt/format.h>

#include <map>
#include <utility>
#include <vector>

#include "base/text/format.hpp"
#include "measure/statistics/statistics.hpp"
#include "measure/tables/pass_notes.hpp"
#include "plan/matmul_weights.hpp"

namespace headroom {
namespace {

/// Describes the time spent on kernels generated for this plan and earlier ones.
std::string describe(const GeneratedKernels& generated) {
  const auto ms = [](std::int64_t ns) { return 1e-6 * static_cast<double>(ns); };
  return fmt::format(
      "generated kernels: {} compiled in {:.0f} ms ({:.0f} ms of threads), {} from the disk in {:.1f} ms\n",
      generated.compiled.load(), ms(generated.busy_ns), ms(generated.compile_ns), generated.from_disk.load(),
      ms(generated.disk_ns));
}

/// In which dtypes weights are stored and computed, and the memory that they take.
std::string describe_weights(const Program& program) {
  std::string text;
  for (const MatmulWeights& one : count_matmul_weights(program.graph)) text += one.text() + "\n";
  if (program.setup != nullptr)
    for (const MatmulWeights& one : count_matmul_weights(program.setup->graph))
      text += "in the setup " + one.text() + "\n";
  return text + fmt::format("weights take {} of device memory\n", format_bytes(weight_bytes(program)));
}

}  // namespace

CompileRequest whole_request(const Pipeline& pipeline, const RequestOptions& options, const DeviceTarget& target) {
  return [&pipeline, options, target](const SwitchSet& switches) {
    RequestOptions switched = options;
    switched.switches = switches;
    return compile_denoise(pipeline, pipeline.resolve(switched), switches, target);
  };
}

CompileRequest one_pass(const ForwardPass& pass, const DeviceTarget& target) {
  return [pass, target](const SwitchSet& switches) { return compile(pass, switches, target); };
}

std::size_t weight_bytes(const Program& program) {
  std::map<std::pair<std::string, std::string>, std::size_t> bytes;  // by key and layout: both may read one
  for (const Program* each : {&program, program.setup.get()})
    if (each != nullptr)
      for (const WeightUse& use : each->weights) bytes.emplace(std::pair(use.key, use.layout), use.bytes);
  std::size_t sum = 0;
  for (const auto& [key, one] : bytes) sum += one;
  return sum;
}

std::string plan_text(const Compiled& compiled, const SwitchSet& switches, std::span<const double> again_ms,
                      const GeneratedKernels& generated, bool with_rejections) {
  std::string text;
  for (const PassRecord& pass : compiled.passes) {
    text += fmt::format("pass {:<32} {:>5} rewrites  {:.2f} ms\n", pass.name, pass.rewrites, pass.milliseconds);
    for (const PassNote& note : pass.notes)
      if (note.kind != NoteKind::kLossy) text += fmt::format("     {}\n", sentence_of(note));
    for (const std::string& loss : describe_losses(pass, switches)) text += fmt::format("     {}\n", loss);
  }
  text += fmt::format("planned in {:.1f} ms\n", compiled.plan_ms);
  if (!again_ms.empty())
    text += fmt::format("again, graph and passes included, in {:.1f} ms (median of {})\n",
                        median(std::vector<double>(again_ms.begin(), again_ms.end())), again_ms.size());
  if (generated.compiled + generated.from_disk > 0) text += describe(generated);
  text += describe_weights(*compiled.program);
  return text + "\n" + to_text(*compiled.program, with_rejections);
}

}  // namespace headroom
