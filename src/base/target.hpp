#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace headroom {

class Backend;
class FusionRules;  // ir/fusion_rules.hpp

enum class DeviceKind : std::uint8_t { kCpu, kCuda };
[[nodiscard]] constexpr std::string_view name_of(DeviceKind device) {
  return device == DeviceKind::kCpu ? "cpu" : "cuda";
}

/// The vector units of a CPU that the code distinguishes; each includes those before it.
enum class CpuIsa : std::uint8_t { kPortable, kAvx2, kAvx512, kAvx512Vnni, kAvx512Bf16, kAmx };
[[nodiscard]] std::string_view name_of(CpuIsa isa);
/// In the order of the enumerators, from portable code to AMX.
[[nodiscard]] std::span<const CpuIsa> all_cpu_isas();
/// The one called `name` ("avx512"), or nothing.
[[nodiscard]] std::optional<CpuIsa> parse_cpu_isa(std::string_view name);

/// How planning handles new work with several candidates when the fastest is not known.
enum class NewWork : std::uint8_t {
  kMeasure,   ///< times the candidates once: up to seconds for each work
  kTakeOver,  ///< does not time; uses the fastest algorithm of the nearest tuned size, or else a guess
};

/// The target of optimization and planning: all facts about a device that passes and kernels may use.
struct Target {
  DeviceKind device = DeviceKind::kCpu;
  CpuIsa cpu_isa = CpuIsa::kPortable;
  int threads = 1;                       ///< CPU threads a kernel may use
  std::size_t cache_bytes = 0;           ///< of the last-level cache; 0 if unknown
  std::size_t core_cache_bytes = 0;      ///< of the second-level cache of one CPU core; 0 if unknown
  int compute_capability = 0;            ///< of a GPU, ten times NVIDIA's number: 90 for Hopper
  int multiprocessors = 0;               ///< of a GPU
  bool has_compiler = false;             ///< of a GPU: kernels can be compiled at run time
  NewWork new_work = NewWork::kMeasure;  ///< of a GPU
  Backend* backend = nullptr;            ///< of a GPU: the device itself, for queries and timing of libraries
  const FusionRules* fusion = nullptr;   ///< what its kernels fuse, for passes; null: nothing
};

/// Capabilities that only some targets have.
enum class Capability : std::uint8_t {
  kBf16,                ///< computes in bfloat16, possibly on f32 units
  kBf16Units,           ///< has units for bfloat16, so that it saves time over f32, and not only memory
  kFp16,                ///< computes in float16
  kTf32,                ///< rounds the operands of f32 matmuls to TF32
  kFp8Matmuls,          ///< f8e4m3 matmuls
  kInt8Matmuls,         ///< i8 matmuls
  kQuantizedAttention,  ///< attention of operands in 8 bits
  kRecording,           ///< records work and replays it
  kLanes,               ///< runs several steps concurrently
  kFusedBodies,         ///< runs fused ops with any body
  kGeneratedKernels,    ///< with kernels generated for them
  kTiles,               ///< has per-core caches, for samples that a thread takes through several steps
};

/// The reason why the target lacks the capability, for `headroom plan`; empty if it has it.
[[nodiscard]] std::string obstacle_to(Capability capability, const Target& target);

}  // namespace headroom
