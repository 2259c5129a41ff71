#include "doctor/trace/trace_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.hpp"
#include "base/text/format.hpp"
#include "measure/tables/table.hpp"

namespace headroom::doctor {
namespace {

struct NameRow {
  std::string_view part;
  KernelName name;
};
constexpr std::array kNames = {
#define HR_KERNEL_NAME(part, kernel_class, dtype, seen) NameRow{part, {KernelClass::kernel_class, dtype}},
#include "doctor/trace/kernel_names.def"
#undef HR_KERNEL_NAME
};

/// A launch takes about this long; one that begins no earlier before the GPU ran out of work came too late.
constexpr double kLaunchUs = 10;
/// An asynchronous copy that keeps the host for longer waits for the device: its host memory is pageable.
constexpr double kBlockingUs = 50;
/// Between kernels of a CUDA graph on an H200: the mean of tests/doctor/traces/h200/clean_captured.
constexpr double kGraphGapUs = 0.8;

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

/// Types as PyTorch writes them in traces: "c10::Float8_e4m3fn", "c10::BFloat16", "float", "c10::Half".
bool is_fp8(std::string_view type) { return type.find("Float8") != std::string_view::npos; }
bool is_float(std::string_view type) {  // without double, which is that of scalars
  return type == "float" || type.find("Half") != std::string_view::npos ||
         type.find("BFloat16") != std::string_view::npos || is_fp8(type);
}

/// Of queries [..., tokens, width] and keys [..., tokens, width]: two matmuls.
double attention_flops(const TracedShape& queries, const TracedShape& keys) {
  if (queries.rank < 2 || keys.rank != queries.rank) return 0;
  double flops = 4 * static_cast<double>(keys.extents[static_cast<std::size_t>(keys.rank) - 2]);
  for (int axis = 0; axis < queries.rank; ++axis)
    flops *= static_cast<double>(std::max<std::int64_t>(0, queries.extents[static_cast<std::size_t>(axis)]));
  return std::max(0.0, flops);
}

}  // namespace

std::string_view name_of(KernelClass kernel_class) {
  constexpr std::array<std::string_view, kKernelClasses> kClassNames = {
      "matmuls", "attention", "convolutions", "layout changes", "softmax", "other kernels", "copies"};
  return kClassNames.at(static_cast<std::size_t>(kernel_class));
}

KernelName classify_kernel(std::string_view name) {
  const auto found =
      std::ranges::find_if(kNames, [&](const NameRow& row) { return name.find(row.part) != std::string_view::npos; });
  return found == kNames.end() ? KernelName{} : found->name;
}

double TraceFacts::gpu_us() const {
  double sum = 0;
  for (const CountAndTime& one : classes) sum += one.us;
  return sum;
}

void TraceCollector::add(const TraceEvent& event) {
  ++facts_.events;
  if (is_one_of(event.category, {"kernel", "gpu_memcpy", "gpu_memset"})) return add_gpu_work(event);
  if (is_one_of(event.category, {"cuda_runtime", "cuda_driver"})) return add_runtime_call(event);
  if (event.category == "cpu_op") return add_op(event);
  if (event.category == "user_annotation" && event.name.starts_with("ProfilerStep#")) ++facts_.steps;
}

KernelName TraceCollector::class_of(std::string_view kernel) {
  constexpr std::size_t kMostKnown = 4096;  // a hostile trace has a new name in each event
  if (const auto known = known_kernels_.find(kernel); known != known_kernels_.end()) return known->second;
  const KernelName found = classify_kernel(kernel);
  if (known_kernels_.size() < kMostKnown) known_kernels_.emplace(kernel, found);
  return found;
}

void TraceCollector::add_gpu_work(const TraceEvent& event) {
  const bool is_kernel = event.category == "kernel";
  const KernelName name = is_kernel ? class_of(event.name) : KernelName{KernelClass::kCopy, {}};
  work_.push_back({.begin_us = event.begin_us,
                   .duration_us = static_cast<float>(event.duration_us),
                   .is_f32_matmul = name.kernel_class == KernelClass::kMatmul && name.dtype == "f32",
                   .correlation = event.correlation.value_or(-1)});
  facts_.classes[static_cast<std::size_t>(name.kernel_class)].add(event.duration_us);
  if (name.kernel_class == KernelClass::kMatmul) facts_.matmul_dtypes[std::string(name.dtype)].add(event.duration_us);
  if (is_kernel && event.name.starts_with("triton_")) ++facts_.compiled_kernels;
  constexpr double kWeightBytes = 1 << 20;
  if (event.name.starts_with("Memcpy HtoD") && event.bytes >= kWeightBytes) {
    facts_.weight_copies.add(event.duration_us);
    facts_.weight_copy_bytes += event.bytes;
  }
}

void TraceCollector::add_runtime_call(const TraceEvent& event) {
  const std::string_view name = event.name;
  const bool is_graph = name.starts_with("cudaGraphLaunch") || name.starts_with("cuGraphLaunch");
  if (is_graph) ++facts_.graph_launches;
  if (is_graph || name.starts_with("cudaLaunchKernel") || name.starts_with("cuLaunchKernel"))
    facts_.launches.add(event.duration_us);
  if (event.correlation) launched_us_.emplace_back(*event.correlation, event.begin_us);
  if (name == "cudaMemcpyAsync" && event.duration_us > kBlockingUs)
    blocking_copies_.push_back({event.begin_us, event.end_us()});
  if (is_one_of(name, {"cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cuStreamSynchronize",
                       "cuCtxSynchronize", "cudaMemcpy"})) {
    facts_.syncs.add(event.duration_us);
    syncs_.push_back({event.begin_us, event.end_us()});
  }
}

void TraceCollector::add_op(const TraceEvent& event) {
  const std::string_view name = event.name;
  if (name.starts_with("aten::")) {
    ++facts_.ops;
    if (!event.input_types[0].empty() || !event.input_types[1].empty()) ++facts_.ops_with_types;
  }
  const bool is_first = facts_.ops_to_us == facts_.ops_from_us;
  facts_.ops_from_us = is_first ? event.begin_us : std::min(facts_.ops_from_us, event.begin_us);
  facts_.ops_to_us = is_first ? event.end_us() : std::max(facts_.ops_to_us, event.end_us());
  const auto add = [&](CountAndTime& sum, Spans& spans) {
    sum.add(event.duration_us);
    spans.push_back({event.begin_us, event.end_us()});
  };
  if (name == "aten::_scaled_dot_product_attention_math") {
    add(facts_.math_attention, math_attentions_);
    facts_.math_attention_flops += attention_flops(event.input_shapes[0], event.input_shapes[1]);
  }
  constexpr std::string_view kFused = "aten::_scaled_dot_product_";
  if (name.starts_with(kFused) && is_one_of(name.substr(kFused.size(), name.find("_attention") - kFused.size()),
                                            {"flash", "efficient", "cudnn", "fused", "cpp"}))
    facts_.fast_attention.add(event.duration_us);
  if (name == "aten::_local_scalar_dense") add(facts_.items, items_);
  if (name == "aten::_scaled_mm") facts_.scaled_matmuls.add(event.duration_us);
  const auto& [to, from] = event.input_types;
  if (is_one_of(name, {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::_scaled_mm"}))
    facts_.matmuls.add(event.duration_us);
  // A cast ends in copy_(destination, source); casts around it would count again.
  if (name == "aten::copy_" && is_float(to) && is_float(from) && to != from)
    is_fp8(from) ? add(facts_.fp8_casts, fp8_casts_) : add(facts_.casts, casts_);
  // Other ops of a compilation are around it or in it.
  if (name.find("compile_inner") != std::string_view::npos) add(facts_.compilations, compilations_);
}

std::optional<double> TraceCollector::launch_of(const GpuWork& work) const {
  const auto launch = std::ranges::lower_bound(launched_us_, std::pair{work.correlation, -1e300});
  return launch != launched_us_.end() && launch->first == work.correlation ? std::optional(launch->second)
                                                                           : std::nullopt;
}

void TraceCollector::attribute(const GpuWork& work, double launch_us) {
  const auto launched_in = [&](const Spans& spans) {
    const auto after = std::ranges::upper_bound(spans, launch_us, {}, &Span::begin_us);
    return after != spans.begin() && std::prev(after)->end_us >= launch_us;
  };
  const bool is_attention = launched_in(math_attentions_);
  if (is_attention) {  // with the casts in it
    facts_.math_attention_work.add(work.duration_us);
  } else if (launched_in(fp8_casts_)) {
    facts_.fp8_cast_work.add(work.duration_us);
  } else if (launched_in(casts_)) {
    facts_.cast_work.add(work.duration_us);
  }
  if (work.is_f32_matmul && !is_attention) facts_.f32_matmuls.add(work.duration_us);
}

/// The same launches and work, one after the other as traced, where the host does not wait: each launch comes earlier
/// by all waits before it.
class TraceCollector::Replay {
 public:
  Replay(Spans waits, double from_us) : from_us_(from_us), busy_until_us_(from_us) {
    std::ranges::sort(waits, {}, &Span::begin_us);
    for (const Span& wait : waits) {
      if (waits_.empty() || wait.begin_us > waits_.back().end_us) {
        waited_before_us_.push_back(waits_.empty() ? 0 : waited_before_us_.back() + length_of(waits_.back()));
        waits_.push_back(wait);
      } else {
        waits_.back().end_us = std::max(waits_.back().end_us, wait.end_us);
      }
    }
  }
  /// `gap_us` was idle before the work; `launch_us` only where it is known; `adds_us` of the work overlaps nothing.
  void add(const GpuWork& work, std::optional<double> launch_us, double gap_us, IdleCause cause, double adds_us) {
    double begins = busy_until_us_ + (cause == IdleCause::kOther ? gap_us : std::min(gap_us, kGraphGapUs));
    if (launch_us) {
      const double latency = std::min(work.begin_us - *launch_us, kLaunchUs);
      const double arrives = *launch_us - waited_before(*launch_us) + latency;
      if (cause == IdleCause::kLaunch || cause == IdleCause::kSync) late_us_ += std::max(0.0, arrives - begins);
      if (cause != IdleCause::kOther) begins = std::max(begins, arrives);
    }
    busy_until_us_ = begins + adds_us;
  }
  [[nodiscard]] double span_us() const { return busy_until_us_ - from_us_; }
  [[nodiscard]] double late_us() const { return late_us_; }

 private:
  static double length_of(const Span& span) { return span.end_us - span.begin_us; }
  [[nodiscard]] double waited_before(double us) const {
    const auto after = std::ranges::upper_bound(waits_, us, {}, &Span::begin_us);
    if (after == waits_.begin()) return 0;
    const auto last = static_cast<std::size_t>(after - waits_.begin()) - 1;
    return waited_before_us_[last] + std::min(us, waits_[last].end_us) - waits_[last].begin_us;
  }

  Spans waits_;  // in order, apart from each other
  std::vector<double> waited_before_us_;
  double from_us_, busy_until_us_, late_us_ = 0;
};

std::ptrdiff_t TraceCollector::gaps_in_order() const {
  std::ptrdiff_t gaps = 0;
  double busy_until = work_.front().begin_us;
  for (const GpuWork& work : work_) {
    if (work.begin_us - busy_until > 2 * kGraphGapUs) ++gaps;
    busy_until = std::max(busy_until, work.begin_us + work.duration_us);
  }
  return gaps;
}

void TraceCollector::look_at_work() {
  if (work_.empty()) return;
  std::ranges::sort(work_, {}, &GpuWork::begin_us);
  std::ranges::sort(launched_us_);
  for (Spans* spans : all_spans()) std::ranges::sort(*spans, {}, &Span::begin_us);
  Spans waits = syncs_;
  waits.insert(waits.end(), items_.begin(), items_.end());
  facts_.from_us = work_.front().begin_us;
  Replay without_syncs(waits, facts_.from_us);
  waits.insert(waits.end(), blocking_copies_.begin(), blocking_copies_.end());
  waits.insert(waits.end(), compilations_.begin(), compilations_.end());
  Replay without_waits(std::move(waits), facts_.from_us);
  double busy_until = facts_.from_us;
  std::size_t sync = 0;
  // The first launches of a trace are slow: where most work follows other work at once, gaps before the first that was
  // launched well ahead are the trace's own.
  bool is_warm = 2 * gaps_in_order() > std::ssize(work_);
  for (const GpuWork& work : work_) {
    const std::optional<double> launch = launch_of(work);
    if (launch) attribute(work, *launch);
    const double gap = std::max(0.0, work.begin_us - busy_until);
    is_warm = is_warm || (&work != work_.data() && launch && work.begin_us - *launch > 2 * kLaunchUs && gap == 0);
    // A synchronization that ends within the gap or just before it held the host back.
    while (sync < syncs_.size() && syncs_[sync].end_us < busy_until) ++sync;
    const bool is_held =
        sync < syncs_.size() && syncs_[sync].begin_us < busy_until + gap && syncs_[sync].end_us <= work.begin_us;
    const IdleCause cause = is_held                                                  ? IdleCause::kSync
                            : is_warm && launch && *launch >= busy_until - kLaunchUs ? IdleCause::kLaunch
                                                                                     : IdleCause::kOther;
    facts_.idle_us[static_cast<std::size_t>(cause)] += gap;
    const double end = work.begin_us + work.duration_us;
    const double adds = std::max(0.0, end - std::max(work.begin_us, busy_until));
    without_syncs.add(work, launch, gap, cause, adds);
    without_waits.add(work, launch, gap, cause, adds);
    facts_.busy_us += adds;
    busy_until = std::max(busy_until, end);
  }
  facts_.to_us = busy_until;
  facts_.without_syncs_us = without_syncs.span_us();
  facts_.late_us = without_waits.late_us();
}

TraceFacts TraceCollector::take() {
  look_at_work();
  work_.clear();
  launched_us_.clear();
  for (Spans* spans : all_spans()) spans->clear();
  return std::exchange(facts_, {});
}

TraceFacts look_at_trace(const std::filesystem::path& file) {
  TraceCollector collector;
  std::string device = read_trace(file, [&](const TraceEvent& event) { collector.add(event); });
  TraceFacts facts = collector.take();
  if (facts.events == 0) fail("{} has no events with a duration", file.native());
  facts.device = std::move(device);
  return facts;
}

std::vector<Fact> describe(const TraceFacts& facts) {
  std::vector<Fact> all;
  const auto add = [&](std::string name, std::string value) {
    all.push_back({"trace", std::move(name), std::move(value)});
  };
  const double gpu = facts.gpu_us();
  add("events", std::to_string(facts.events));
  if (facts.steps > 0) add("steps", std::to_string(facts.steps));
  if (!facts.device.empty()) add("device", facts.device);
  if (gpu <= 0) return all;
  add("GPU", fmt::format("busy for {} of {}", format_ms(facts.busy_us / 1000), format_ms(facts.span_us() / 1000)));
  for (std::size_t i = 0; i < kKernelClasses; ++i)
    if (const CountAndTime& one = facts.classes[i]; one.count > 0)
      add(std::string(name_of(static_cast<KernelClass>(i))),
          fmt::format("{} in {}, {:.1f}% of the GPU's work", one.count, format_ms(one.us / 1000), 100 * one.us / gpu));
  for (const auto& [dtype, one] : facts.matmul_dtypes)
    add("matmuls in " + (dtype.empty() ? "a dtype that names do not tell" : dtype),
        fmt::format("{} in {}", one.count, format_ms(one.us / 1000)));
  constexpr std::array kCauses = {"launches that came too late", "synchronization", "other causes"};
  for (std::size_t i = 0; i < kCauses.size(); ++i)
    if (facts.idle_us[i] > 0)
      add(fmt::format("GPU idle by {}", kCauses[i]),
          fmt::format("{}, {:.1f}%", format_ms(facts.idle_us[i] / 1000), 100 * facts.idle_us[i] / facts.span_us()));
  if (facts.launches.count > 0)
    add("launches", fmt::format("{}, {} of the host each", facts.launches.count,
                                format_ms(facts.launches.us / 1000 / static_cast<double>(facts.launches.count))));
  return all;
}

}  // namespace headroom::doctor
