#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "doctor/machine_facts.hpp"
#include "doctor/trace/trace_events.hpp"

/// What the checks of a trace look at.
namespace headroom::doctor {

/// Kinds of GPU work, by kernels' names (kernel_names.def).
enum class KernelClass : std::uint8_t { kMatmul, kAttention, kConvolution, kLayout, kSoftmax, kOther, kCopy };
inline constexpr std::size_t kKernelClasses = 7;
[[nodiscard]] std::string_view name_of(KernelClass kernel_class);

struct KernelName {
  KernelClass kernel_class = KernelClass::kOther;
  std::string_view dtype;  ///< of the arithmetic; "" if the name does not say
};
[[nodiscard]] KernelName classify_kernel(std::string_view name);

struct CountAndTime {
  std::int64_t count = 0;
  double us = 0;
  void add(double more_us) {
    ++count;
    us += more_us;
  }
};

/// Why a GPU had nothing to do.
enum class IdleCause : std::uint8_t { kLaunch, kSync, kOther };

struct TraceFacts {
  std::int64_t events = 0;
  std::int64_t ops = 0, ops_with_types = 0;  ///< aten::*; those whose operands' dtypes the trace has
  int steps = 0;                             ///< annotations ProfilerStep#N
  double from_us = 0, to_us = 0;             ///< of the GPU's work
  double ops_from_us = 0, ops_to_us = 0;     ///< of the host's ops
  double busy_us = 0;                        ///< at least one stream works
  std::array<double, 3> idle_us{};           ///< by IdleCause
  double without_syncs_us =
      0;               ///< span_us() if the host never waited for the GPU: launches come earlier, in their order
  double late_us = 0;  ///< idle since launches come too late even if it neither waited nor compiled
  std::string device;  ///< the first GPU's name, "" if the trace has none
  std::array<CountAndTime, kKernelClasses> classes{};
  std::map<std::string, CountAndTime> matmul_dtypes;  ///< "" where the name does not say
  CountAndTime launches;                              ///< calls of the host that launch kernels
  std::int64_t graph_launches = 0;
  CountAndTime syncs;           ///< cudaStreamSynchronize, cudaDeviceSynchronize and the like
  CountAndTime items;           ///< aten::_local_scalar_dense, the end of .item()
  CountAndTime math_attention;  ///< aten::_scaled_dot_product_attention_math
  CountAndTime fast_attention;  ///< the fused ones
  CountAndTime fp8_casts;       ///< aten::copy_ from FP8 to a wider dtype
  CountAndTime casts;           ///< between other float dtypes
  CountAndTime math_attention_work, fp8_cast_work, cast_work;  ///< the GPU's work that these ops launched
  double math_attention_flops = 0;                             ///< by the ops' shapes, without regard to masks
  CountAndTime f32_matmuls;                                    ///< kernels of other ops than math attention
  CountAndTime scaled_matmuls;                                 ///< aten::_scaled_mm
  CountAndTime matmuls;                                        ///< aten::mm and the like
  CountAndTime weight_copies;                                  ///< host to device, of at least 1 MiB
  double weight_copy_bytes = 0;
  CountAndTime compilations;          ///< torch.compile while the trace ran
  std::int64_t compiled_kernels = 0;  ///< triton_*

  [[nodiscard]] double span_us() const { return to_us - from_us; }
  /// From the first to the last work, of the GPU or the host.
  [[nodiscard]] double whole_us() const { return std::max(span_us(), ops_to_us - ops_from_us); }
  [[nodiscard]] double gpu_us() const;
  [[nodiscard]] const CountAndTime& of(KernelClass kernel_class) const {
    return classes[static_cast<std::size_t>(kernel_class)];
  }
  [[nodiscard]] double idle_of(IdleCause cause) const { return idle_us[static_cast<std::size_t>(cause)]; }
};

/// Takes events in any order. Memory: 16 bytes for each launch, synchronization, cast and attention, 24 for each kernel
/// and copy. Work belongs to an op if it was launched while the op ran, on whichever thread.
class TraceCollector {
 public:
  void add(const TraceEvent& event);
  [[nodiscard]] TraceFacts take();

 private:
  struct Span {
    double begin_us, end_us;
  };
  using Spans = std::vector<Span>;
  struct GpuWork {
    double begin_us;
    float duration_us;
    bool is_f32_matmul;
    std::int64_t correlation;
  };
  class Replay;
  [[nodiscard]] KernelName class_of(std::string_view kernel);
  void add_gpu_work(const TraceEvent& event);
  void add_runtime_call(const TraceEvent& event);
  void add_op(const TraceEvent& event);
  [[nodiscard]] std::optional<double> launch_of(const GpuWork& work) const;
  void attribute(const GpuWork& work, double launch_us);
  [[nodiscard]] std::ptrdiff_t gaps_in_order() const;  ///< longer than between the kernels of a graph
  void look_at_work();

  TraceFacts facts_;
  std::vector<GpuWork> work_;
  std::vector<std::pair<std::int64_t, double>> launched_us_;  // correlation to when the host began the launch
  Spans syncs_, items_, blocking_copies_, compilations_, math_attentions_, fp8_casts_, casts_;
  [[nodiscard]] std::array<Spans*, 7> all_spans() {
    return {&syncs_, &items_, &blocking_copies_, &compilations_, &math_attentions_, &fp8_casts_, &casts_};
  }
  std::map<std::string, KernelName, std::less<>> known_kernels_;  // a trace repeats its few hundred names
};

[[nodiscard]] TraceFacts look_at_trace(const std::filesystem::path& file);
[[nodiscard]] std::vector<Fact> describe(const TraceFacts& facts);

}  // namespace headroom::doctor
