// The kinds of devices of this program. A kind of its own, for a test say, needs no line here.

#include <fmt/format.h>

#include "base/target.hpp"
#include "base/text/format.hpp"

namespace headroom {
namespace {

std::string obstacle_on_cpu(Capability capability, const Target& target) {
  const std::string_view has = name_of(target.cpu_isa);
  switch (capability) {
    case Capability::kBf16:
      if (target.cpu_isa >= CpuIsa::kAvx512) return {};
      return fmt::format("this CPU has no bfloat16 or AVX-512 units: its vector units are {}", has);
    case Capability::kBf16Units:
      if (target.cpu_isa >= CpuIsa::kAvx512Bf16) return {};
      return fmt::format("this CPU has no units for bfloat16: its vector units are {}", has);
    case Capability::kFp16:
      return "float16 runs on NVIDIA GPUs, not on a cpu";
    case Capability::kTf32:
      return "TF32 is of NVIDIA's tensor cores, not of a cpu";
    case Capability::kFp8Matmuls:
      return "FP8 products run on NVIDIA GPUs, not on a cpu";
    case Capability::kInt8Matmuls:
      if (target.cpu_isa >= CpuIsa::kAvx512Vnni) return {};
      return fmt::format("this CPU has no AVX-512 VNNI or AMX units for int8 products: its vector units are {}", has);
    case Capability::kQuantizedAttention:
      return "attention in 8 bits runs on NVIDIA GPUs, not on a cpu";
    case Capability::kRecording:
      return "a CPU runs work where it is submitted: there are no launches to record";
    case Capability::kLanes:
      return "a CPU runs one step at a time, each on all threads";
    case Capability::kFusedBodies:
    case Capability::kRanks:
      return {};
    case Capability::kGeneratedKernels:
      return "on a CPU kernels are compiled ahead";
    case Capability::kTiles:
      return target.core_cache_bytes == 0 ? "the system does not tell how large a core's second-level cache is" : "";
  }
  return {};
}

std::string obstacle_on_cuda(Capability capability, const Target& target) {
  constexpr int kFirstWithFp8 = 89;  // Ada
  constexpr int kHopper = 90;
  switch (capability) {
    case Capability::kBf16:
    case Capability::kBf16Units:
    case Capability::kFp16:
    case Capability::kTf32:
    case Capability::kRecording:
    case Capability::kLanes:
    case Capability::kRanks:
      return {};
    case Capability::kFp8Matmuls:
      if (target.compute_capability >= kFirstWithFp8) return {};
      return fmt::format("FP8 tensor cores came with sm_{}; this GPU is sm_{}", kFirstWithFp8,
                         target.compute_capability);
    case Capability::kInt8Matmuls:
      return "int8 products run on CPUs, not on cuda";
    case Capability::kQuantizedAttention:
      if (target.compute_capability == kHopper) return {};
      return fmt::format("attention in 8 bits is written for sm_{}; this GPU is sm_{}", kHopper,
                         target.compute_capability);
    case Capability::kFusedBodies:
    case Capability::kGeneratedKernels:
      return target.has_compiler ? "" : "NVRTC, which compiles kernels as a program runs, is not there";
    case Capability::kTiles:
      return "a GPU's processors share one second-level cache";
  }
  return {};
}

std::string describe_cpu(const Target& target) {
  return fmt::format("{}, {}", name_of(target.cpu_isa), format_count(target.threads, "thread"));
}

std::string describe_cuda(const Target& target) {
  return fmt::format("sm_{}, {} multiprocessors", target.compute_capability, target.multiprocessors);
}

}  // namespace

constinit const DeviceProfile kCpuProfile{
    .name = "cpu", .alignment = 64, .obstacle_to = obstacle_on_cpu, .describe = describe_cpu};
constinit const DeviceProfile kCudaProfile{.name = "cuda",
                                           .has_launches = true,
                                           .has_own_memory = true,
                                           .keeps_precision = true,
                                           .alignment = 256,
                                           .obstacle_to = obstacle_on_cuda,
                                           .describe = describe_cuda};

}  // namespace headroom
