#include "doctor/trace/trace_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
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

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

/// Types as PyTorch writes them in traces: "c10::Float8_e4m3fn", "c10::BFloat16", "float", "c10::Half".
bool is_fp8(std::string_view type) { return type.find("Float8") != std::string_view::npos; }
bool is_float(std::string_view type) {  // without double, which is that of scalars
  return type == "float" || type.find("Half") != std::string_view::npos ||
         type.find("BFloat16") != std::string_view::npos || is_fp8(type);
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
  work_.push_back({{event.begin_us, event.end_us()}, event.correlation.value_or(-1)});
  const bool is_kernel = event.category == "kernel";
  const KernelName name = is_kernel ? class_of(event.name) : KernelName{KernelClass::kCopy, {}};
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
  if (is_one_of(name, {"cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cuStreamSynchronize",
                       "cuCtxSynchronize", "cudaMemcpy"})) {
    facts_.syncs.add(event.duration_us);
    syncs_.push_back({event.begin_us, event.end_us()});
  }
}

void TraceCollector::add_op(const TraceEvent& event) {
  const std::string_view name = event.name;
  const bool is_first = facts_.ops_to_us == facts_.ops_from_us;
  facts_.ops_from_us = is_first ? event.begin_us : std::min(facts_.ops_from_us, event.begin_us);
  facts_.ops_to_us = is_first ? event.end_us() : std::max(facts_.ops_to_us, event.end_us());
  if (name == "aten::_scaled_dot_product_attention_math") facts_.math_attention.add(event.duration_us);
  constexpr std::string_view kFused = "aten::_scaled_dot_product_";
  if (name.starts_with(kFused) && is_one_of(name.substr(kFused.size(), name.find("_attention") - kFused.size()),
                                            {"flash", "efficient", "cudnn", "fused", "cpp"}))
    facts_.fast_attention.add(event.duration_us);
  if (name == "aten::_local_scalar_dense") facts_.items.add(event.duration_us);
  if (name == "aten::_scaled_mm") facts_.scaled_matmuls.add(event.duration_us);
  const auto& [to, from] = event.input_types;
  if (is_one_of(name, {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::_scaled_mm"}))
    facts_.matmuls.add(event.duration_us);
  // A cast ends in copy_(destination, source); casts around it would count again.
  if (name == "aten::copy_" && is_float(to) && is_float(from) && to != from)
    (is_fp8(from) ? facts_.fp8_casts : facts_.casts).add(event.duration_us);
  // Other ops of a compilation are around it or in it.
  if (name.find("compile_inner") != std::string_view::npos) facts_.compilations.add(event.duration_us);
}

void TraceCollector::find_idle_times() {
  if (work_.empty()) return;
  std::ranges::sort(work_, {}, [](const GpuWork& work) { return work.span.begin_us; });
  std::ranges::sort(launched_us_);
  std::ranges::sort(syncs_, {}, &Span::begin_us);
  facts_.from_us = work_.front().span.begin_us;
  double busy_until = work_.front().span.begin_us;
  std::size_t sync = 0;
  for (const GpuWork& work : work_) {
    const double gap = work.span.begin_us - busy_until;
    if (gap > 0) {
      const auto launch = std::ranges::lower_bound(launched_us_, std::pair{work.correlation, -1e300});
      const bool is_known = launch != launched_us_.end() && launch->first == work.correlation;
      // A synchronization that ends within the gap or just before it held the host back.
      while (sync < syncs_.size() && syncs_[sync].end_us < busy_until) ++sync;
      const bool is_held =
          sync < syncs_.size() && syncs_[sync].begin_us < busy_until + gap && syncs_[sync].end_us <= work.span.begin_us;
      const IdleCause cause = is_held                                                ? IdleCause::kSync
                              : is_known && launch->second >= busy_until - kLaunchUs ? IdleCause::kLaunch
                                                                                     : IdleCause::kOther;
      facts_.idle_us[static_cast<std::size_t>(cause)] += gap;
    }
    const double begins = std::max(work.span.begin_us, busy_until);
    facts_.busy_us += std::max(0.0, work.span.end_us - begins);
    busy_until = std::max(busy_until, work.span.end_us);
  }
  facts_.to_us = busy_until;
}

TraceFacts TraceCollector::take() {
  find_idle_times();
  work_.clear();
  launched_us_.clear();
  syncs_.clear();
  return std::exchange(facts_, {});
}

TraceFacts look_at_trace(const std::filesystem::path& file) {
  TraceCollector collector;
  read_trace(file, [&](const TraceEvent& event) { collector.add(event); });
  TraceFacts facts = collector.take();
  if (facts.events == 0) fail("{} has no events with a duration", file.native());
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
