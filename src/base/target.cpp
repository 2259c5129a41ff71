#include "base/target.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace headroom {

std::string_view name_of(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kPortable:
      return "portable";
    case CpuIsa::kAvx2:
      return "avx2";
    case CpuIsa::kAvx512:
      return "avx512";
    case CpuIsa::kAvx512Vnni:
      return "avx512_vnni";
    case CpuIsa::kAvx512Bf16:
      return "avx512_bf16";
    case CpuIsa::kAmx:
      return "amx";
  }
  return "unknown";
}

std::span<const CpuIsa> all_cpu_isas() {
  static constexpr std::array kAll = {CpuIsa::kPortable,   CpuIsa::kAvx2,       CpuIsa::kAvx512,
                                      CpuIsa::kAvx512Vnni, CpuIsa::kAvx512Bf16, CpuIsa::kAmx};
  return kAll;
}

std::optional<CpuIsa> parse_cpu_isa(std::string_view name) {
  const auto found = std::ranges::find(all_cpu_isas(), name, [](CpuIsa isa) { return name_of(isa); });
  if (found == all_cpu_isas().end()) return std::nullopt;
  return *found;
}

std::string obstacle_to(Capability capability, const Target& target) {
  constexpr int kFirstWithFp8 = 89;  // Ada
  constexpr int kHopper = 90;
  const bool is_cpu = target.device == DeviceKind::kCpu;
  const std::string_view device = name_of(target.device);
  switch (capability) {
    case Capability::kBf16:
      if (!is_cpu || target.cpu_isa >= CpuIsa::kAvx512) return {};
      return fmt::format("this CPU has no bfloat16 or AVX-512 units: its vector units are {}", name_of(target.cpu_isa));
    case Capability::kBf16Units:
      if (!is_cpu || target.cpu_isa >= CpuIsa::kAvx512Bf16) return {};
      return fmt::format("this CPU has no units for bfloat16: its vector units are {}", name_of(target.cpu_isa));
    case Capability::kFp16:
      return is_cpu ? fmt::format("float16 runs on NVIDIA GPUs, not on a {}", device) : "";
    case Capability::kTf32:
      return is_cpu ? fmt::format("TF32 is of NVIDIA's tensor cores, not of a {}", device) : "";
    case Capability::kFp8Matmuls:
      if (is_cpu) return fmt::format("FP8 products run on NVIDIA GPUs, not on a {}", device);
      if (target.compute_capability >= kFirstWithFp8) return {};
      return fmt::format("FP8 tensor cores came with sm_{}; this GPU is sm_{}", kFirstWithFp8,
                         target.compute_capability);
    case Capability::kInt8Matmuls:
      if (!is_cpu) return fmt::format("int8 products run on CPUs, not on {}", device);
      if (target.cpu_isa >= CpuIsa::kAvx512Vnni) return {};
      return fmt::format("this CPU has no AVX-512 VNNI or AMX units for int8 products: its vector units are {}",
                         name_of(target.cpu_isa));
    case Capability::kQuantizedAttention:
      if (is_cpu) return fmt::format("attention in 8 bits runs on NVIDIA GPUs, not on a {}", device);
      if (target.compute_capability == kHopper) return {};
      return fmt::format("attention in 8 bits is written for sm_{}; this GPU is sm_{}", kHopper,
                         target.compute_capability);
    case Capability::kRecording:
      return is_cpu ? "a CPU runs work where it is submitted: there are no launches to record" : "";
    case Capability::kLanes:
      return is_cpu ? "a CPU runs one step at a time, each on all threads" : "";
    case Capability::kGeneratedKernels:
      if (is_cpu) return "on a CPU kernels are compiled ahead";
      [[fallthrough]];
    case Capability::kFusedBodies:
      return is_cpu || target.has_compiler ? "" : "NVRTC, which compiles kernels as a program runs, is not there";
    case Capability::kTiles:
      if (!is_cpu) return "a GPU's processors share one second-level cache";
      return target.core_cache_bytes == 0 ? "the system does not tell how large a core's second-level cache is" : "";
  }
  return {};
}

}  // namespace headroom
