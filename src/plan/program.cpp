#include "plan/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text/format.hpp"

namespace headroom {
namespace {

/// Op, kernel, compute dtype, and type of the result.
using Cells = std::array<std::string, 4>;

Cells cells_of(const Graph& graph, const Step& step) {
  const TensorType& type = graph.type(step.outputs[0]);
  if (step.kernel == nullptr) return {"copy", "copy", "", fmt::format("{}{}", type.dtype, type.shape)};
  return {std::string(name_of(step.op)), fmt::format("{} ({})", step.kernel->name(), step.prepared->implementation()),
          std::string(step.kernel->compute_name(step.spec)), fmt::format("{}{}", type.dtype, type.shape)};
}

class Printer {
 public:
  Printer(const Program& program, bool with_rejections) : program_(program), with_rejections_(with_rejections) {
    for (const Step& step : program.steps) {
      const Cells cells = cells_of(program_.graph, step);
      for (std::size_t i = 0; i < cells.size(); ++i) widths_[i] = std::max(widths_[i], cells[i].size());
    }
  }

  std::string print() {
    std::size_t weight_bytes = 0;
    for (const WeightUse& use : program_.weights) weight_bytes += use.bytes;
    const Target& target = program_.target;
    line("program {} for {} ({})", program_.graph.name(), name_of(target.device), target.device->describe(target));
    line("  steps    {}, {} without one", format_count(std::ssize(program_.steps), "launch"),
         format_count(program_.elided, "node"));
    line("  weights  {} in {}", program_.weights.size(), format_bytes(weight_bytes));
    if (program_.has_arena)
      line("  arena    {}, {:.1f}% above the most that is live at once", format_bytes(program_.arena_bytes),
           program_.arena_lower_bound_bytes == 0 ? 0.0
                                                 : 100.0 * (static_cast<double>(program_.arena_bytes) /
                                                                static_cast<double>(program_.arena_lower_bound_bytes) -
                                                            1.0));
    else
      line("  eager    buffers by liveness, at most {} live at once", format_bytes(program_.arena_lower_bound_bytes));
    if (program_.lanes > 1)
      line("  streams  {}, which meet before and after each straight run of steps", program_.lanes);
    if (program_.has_graph)
      line("  graph    recorded when it first runs, and replayed{}",
           program_.root.children.empty() ? "" : "; loops and branches too, where all that is in them can be");
    if (const std::int64_t reads = most_host_reads(program_.root); reads > 0)
      line("  ifs      the host waits to read their predicates, {} times a run at most{}", reads,
           program_.has_graph ? ", where the device cannot" : "");
    segment(program_.root, 0);
    return std::move(text_);
  }

 private:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format(format, std::forward<Args>(args)...);
    text_.erase(text_.find_last_not_of(' ') + 1);
    text_ += '\n';
  }

  void segment(const Segment& segment, int depth) {
    const std::string indent(static_cast<std::size_t>(2 * depth), ' ');
    if (segment.kind == SegmentKind::kIf) {
      line("{}if:", indent);
      this->segment(segment.children[0], depth + 1);
      if (segment.children[1].first == segment.children[1].last) return;
      line("{}else:", indent);
      return this->segment(segment.children[1], depth + 1);
    }
    if (segment.kind == SegmentKind::kLoop) line("{}loop {} times:", indent, segment.trip_count);
    const int inner = segment.kind == SegmentKind::kLoop ? depth + 1 : depth;
    for (const Segment& child : segment.children) this->segment(child, inner);
    if (segment.children.empty()) steps(segment.first, segment.last, inner);
  }

  void steps(int first, int last, int depth) {
    for (int i = first; i < last; ++i) {
      const TiledRun* const run = tiled_run_at(program_, i);
      if (run != nullptr && i == run->first)
        line("{}{} parts, each on one thread, with {} a thread:", std::string(std::size_t{2} * depth, ' '), run->parts,
             format_bytes(run->thread_bytes));
      step(program_.steps[static_cast<std::size_t>(i)], i, run == nullptr ? depth : depth + 1);
    }
  }

  void step(const Step& step, int index, int depth) {
    const std::string indent(static_cast<std::size_t>(2 * depth), ' ');
    const Cells cells = cells_of(program_.graph, step);
    line("{}{:5}  {:{}}  {:{}}  {:{}}  {:{}}  {}", indent, index, cells[0], widths_[0], cells[1], widths_[1], cells[2],
         widths_[2], cells[3], widths_[3], step.label);
    if (with_rejections_)
      for (const RejectedKernel& rejected : step.rejections)
        line("{}       not {}: {}", indent, rejected.kernel, rejected.reason);
  }

  const Program& program_;
  bool with_rejections_;
  std::array<std::size_t, 4> widths_ = {};  // of the cells of all steps
  std::string text_;
};

}  // namespace

const TiledRun* tiled_run_at(const Program& program, int step) {
  const auto found =
      std::ranges::find_if(program.tiled, [&](const TiledRun& run) { return run.first <= step && step < run.last; });
  return found == program.tiled.end() ? nullptr : &*found;
}

std::int64_t most_host_reads(const Segment& segment) {
  std::int64_t inside = 0;
  std::int64_t most_of_a_branch = 0;
  for (const Segment& child : segment.children) {
    const std::int64_t reads = most_host_reads(child);
    inside += reads;
    most_of_a_branch = std::max(most_of_a_branch, reads);
  }
  return segment.kind == SegmentKind::kIf ? 1 + most_of_a_branch : segment.trip_count * inside;
}

std::string to_text(const Program& program, bool with_rejections) {
  std::string text = Printer(program, with_rejections).print();
  if (program.setup) text += "\nbefore it, where something has changed:\n" + to_text(*program.setup, with_rejections);
  return text;
}

}  // namespace headroom
