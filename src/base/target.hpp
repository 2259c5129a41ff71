#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace headroom {

class Backend;

enum class DeviceKind : std::uint8_t { kCpu, kCuda };
[[nodiscard]] constexpr std::string_view name_of(DeviceKind device) {
  return device == DeviceKind::kCpu ? "cpu" : "cuda";
}

/// The vector units of a CPU that code here tells apart, each including those before it.
enum class CpuIsa : std::uint8_t { kPortable, kAvx2, kAvx512, kAvx512Vnni, kAvx512Bf16, kAmx };
[[nodiscard]] std::string_view name_of(CpuIsa isa);
/// From the narrowest to the widest.
[[nodiscard]] std::span<const CpuIsa> all_cpu_isas();
/// The one called `name` ("avx512"), or nothing.
[[nodiscard]] std::optional<CpuIsa> parse_cpu_isa(std::string_view name);

/// What planning does about work that has several ways to run, the fastest of which is not known.
enum class NewWork : std::uint8_t {
  kMeasure,   ///< times them, once and for all: up to seconds for each
  kTakeOver,  ///< takes, untimed, what was the fastest for work that differs from it in size alone, or else a guess
};

/// What a graph is optimized and planned for: all that passes and kernels may know of a device.
struct Target {
  DeviceKind device = DeviceKind::kCpu;
  CpuIsa cpu_isa = CpuIsa::kPortable;
  int threads = 1;                   ///< CPU threads a kernel may use
  std::size_t cache_bytes = 0;       ///< of the last-level cache; 0 where the system does not tell
  std::size_t core_cache_bytes = 0;  ///< of the second-level cache of one CPU core; 0 where the system does not tell
  int compute_capability = 0;        ///< of a GPU, ten times NVIDIA's number: 90 for Hopper
  int multiprocessors = 0;           ///< of a GPU
  bool has_compiler = false;         ///< of a GPU: kernels can be compiled for it here, as a program runs
  NewWork new_work = NewWork::kMeasure;  ///< of a GPU
  Backend* backend = nullptr;            ///< of a GPU: the device itself, on which libraries are asked and timed
};

/// What some targets can do and others cannot.
enum class Capability : std::uint8_t {
  kBf16,          ///< computes in bfloat16, if need be on the units for f32
  kBf16Units,     ///< has units for bfloat16, so that computing in it takes less time than in f32, not only less memory
  kFp16,          ///< computes in float16
  kTf32,          ///< rounds the operands of f32 products to TF32
  kFp8Products,   ///< multiplies f8e4m3
  kInt8Products,  ///< multiplies i8
  kRecording,     ///< takes work down and replays it
  kLanes,         ///< runs several steps side by side
  kFusedBodies,   ///< runs fused ops, whatever their bodies
  kGeneratedKernels,  ///< with kernels that are made for them
  kTiles,             ///< has caches of their own for the samples that a thread takes through several steps
};

/// Why the target cannot, in words for `headroom plan`; empty where it can.
[[nodiscard]] std::string obstacle_to(Capability capability, const Target& target);

}  // namespace headroom
