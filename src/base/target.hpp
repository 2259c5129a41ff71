#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace headroom {

class FusionRules;    // ir/fusion_rules.hpp
struct TokenSharing;  // passes/ranks/token_sharing.hpp
struct Target;

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
  kRanks,               ///< several ranks share its work
  kTiles,               ///< has per-core caches, for samples that a thread takes through several steps
};

/// What is common to all devices of a kind. Code above the backends asks it and does not ask which kind it is.
struct DeviceProfile {
  std::string_view name;         ///< "cpu"
  bool has_launches = false;     ///< work is submitted and runs later, and each launch takes microseconds
  bool has_own_memory = false;   ///< apart from that of the host
  bool keeps_precision = false;  ///< its baseline computes in the dtype of the checkpoint, and not in f32
  std::size_t alignment = 64;    ///< of its buffers in bytes, which kernels rely on
  /// The reason why a target of this kind lacks the capability; empty if it has it.
  std::string (*obstacle_to)(Capability capability, const Target& target) = nullptr;
  /// A target in words: "avx2, 4 threads".
  std::string (*describe)(const Target& target) = nullptr;
};

/// A kind of device, by its profile. There may be others than those named here.
class DeviceKind {
 public:
  static const DeviceKind kCpu, kCuda;

  /// The profile must live as long as the program.
  explicit constexpr DeviceKind(const DeviceProfile& profile) : profile_(&profile) {}
  [[nodiscard]] constexpr const DeviceProfile* operator->() const { return profile_; }
  friend constexpr bool operator==(DeviceKind, DeviceKind) = default;

 private:
  const DeviceProfile* profile_;
};
[[nodiscard]] constexpr std::string_view name_of(DeviceKind device) { return device->name; }

extern const DeviceProfile kCpuProfile, kCudaProfile;
inline constexpr DeviceKind DeviceKind::kCpu{kCpuProfile};
inline constexpr DeviceKind DeviceKind::kCuda{kCudaProfile};

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

/// The target of optimization and planning: the facts about one device.
struct Target {
  DeviceKind device = DeviceKind::kCpu;
  CpuIsa cpu_isa = CpuIsa::kPortable;
  int threads = 1;                      ///< CPU threads a kernel may use
  std::size_t cache_bytes = 0;          ///< of the last-level cache; 0 if unknown
  std::size_t core_cache_bytes = 0;     ///< of the second-level cache of one CPU core; 0 if unknown
  int compute_capability = 0;           ///< of a GPU, ten times NVIDIA's number: 90 for Hopper
  int multiprocessors = 0;              ///< of a GPU
  bool has_compiler = false;            ///< of a GPU: kernels can be compiled at run time
  const FusionRules* fusion = nullptr;  ///< what its kernels take, for passes; null: nothing is fused
  /// For passes: what ranks may share, and which one this is; null if there is one rank alone.
  const TokenSharing* sharing = nullptr;
};

/// The reason why the target lacks the capability, for `headroom plan`; empty if it has it.
[[nodiscard]] std::string obstacle_to(Capability capability, const Target& target);

}  // namespace headroom
