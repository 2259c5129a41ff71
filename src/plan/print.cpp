#include <fmt/format.h>

#include <iterator>

#include "plan/program.hpp"

namespace headroom {
namespace {

class Printer {
 public:
  Printer(const Program& program, bool with_rejections) : program_(program), with_rejections_(with_rejections) {}

  std::string print() {
    std::size_t weight_bytes = 0;
    for (const WeightUse& use : program_.weights) weight_bytes += use.bytes;
    const Target& target = program_.target;
    if (target.device == DeviceKind::kCpu)
      line("program {} for {} ({}, {} threads)", program_.graph.name(), name_of(target.device), name_of(target.cpu_isa),
           target.threads);
    else
      line("program {} for {} (sm_{}, {} multiprocessors)", program_.graph.name(), name_of(target.device),
           target.compute_capability, target.multiprocessors);
    line("  steps    {} launches, {} nodes without one", program_.steps.size(), program_.elided);
    line("  weights  {} in {:.1f} MiB", program_.weights.size(), mebibytes(weight_bytes));
    if (program_.has_arena)
      line("  arena    {:.1f} MiB, {:.1f}% above the most that is live at once", mebibytes(program_.arena_bytes),
           program_.arena_lower_bound_bytes == 0 ? 0.0
                                                 : 100.0 * (static_cast<double>(program_.arena_bytes) /
                                                                static_cast<double>(program_.arena_lower_bound_bytes) -
                                                            1.0));
    else
      line("  eager    buffers by liveness, at most {:.1f} MiB live at once",
           mebibytes(program_.arena_lower_bound_bytes));
    if (program_.lanes > 1)
      line("  streams  {}, which meet before and after each straight run of steps", program_.lanes);
    if (program_.has_graph) line("  graph    straight runs of steps are recorded when they first recur, and replayed");
    segment(program_.root, 0);
    return std::move(text_);
  }

 private:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }

  static double mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

  void segment(const Segment& segment, int depth) {
    const std::string indent(static_cast<std::size_t>(2 * depth), ' ');
    if (segment.kind == RegionKind::kLoop) line("{}loop {} times:", indent, segment.trip_count);
    const int inner = segment.kind == RegionKind::kLoop ? depth + 1 : depth;
    if (segment.children.empty())
      for (int i = segment.first; i < segment.last; ++i) {
        const TiledRun* const run = tiled_run_at(program_, i);
        if (run != nullptr && i == run->first)
          line("{}{} parts, each on one thread, with {:.2f} MiB a thread:", std::string(std::size_t{2} * inner, ' '),
               run->parts, mebibytes(run->thread_bytes));
        step(program_.steps[static_cast<std::size_t>(i)], i, run == nullptr ? inner : inner + 1);
      }
    else
      for (const Segment& child : segment.children) this->segment(child, inner);
  }

  void step(const Step& step, int index, int depth) {
    const std::string indent(static_cast<std::size_t>(2 * depth), ' ');
    if (step.kernel == nullptr) {
      line("{}{:5}  {:<14} {:<34} {}", indent, index, "copy", "copy to state", step.label);
      return;
    }
    const TensorType& type = step.spec.outputs[0];
    line("{}{:5}  {:<14} {:<34} {:<5} {:<22} {}", indent, index, name_of(step.op),
         fmt::format("{} ({})", step.kernel->name(), step.prepared->implementation()),
         step.kernel->compute_name(step.spec), fmt::format("{}{}", type.dtype, type.shape), step.label);
    if (with_rejections_)
      for (const RejectedKernel& rejected : step.rejections)
        line("{}       not {}: {}", indent, rejected.kernel, rejected.reason);
  }

  const Program& program_;
  bool with_rejections_;
  std::string text_;
};

}  // namespace

std::string to_text(const Program& program, bool with_rejections) { return Printer(program, with_rejections).print(); }

}  // namespace headroom
