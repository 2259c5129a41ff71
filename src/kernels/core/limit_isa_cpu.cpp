#include <algorithm>

#include "backends/cpu/cpu_info.hpp"
#include "base/error.hpp"
#include "kernels/core/limit_isa.hpp"
#include "kernels/core/simd_targets.hpp"

// clang-format off: the next headers need simd_targets.hpp first.
#include "hwy/targets.h"
// clang-format on

#include <oneapi/dnnl/dnnl.hpp>

namespace headroom {
namespace {

dnnl::cpu_isa onednn_isa(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kPortable:
      return dnnl::cpu_isa::sse41;
    case CpuIsa::kAvx2:
      return dnnl::cpu_isa::avx2;
    case CpuIsa::kAvx512:
      return dnnl::cpu_isa::avx512_core;
    case CpuIsa::kAvx512Vnni:
      return dnnl::cpu_isa::avx512_core_vnni;
    case CpuIsa::kAvx512Bf16:
      return dnnl::cpu_isa::avx512_core_bf16;
    case CpuIsa::kAmx:
      return dnnl::cpu_isa::all;
  }
  return dnnl::cpu_isa::all;
}

/// The vector units of Highway beyond `isa`.
std::int64_t highway_targets_beyond(CpuIsa isa) {
  if (isa >= CpuIsa::kAvx512Bf16) return 0;
  if (isa >= CpuIsa::kAvx512) return HWY_AVX3_DL;
  return HWY_AVX3_DL | HWY_AVX3 | (isa == CpuIsa::kAvx2 ? 0 : HWY_AVX2);
}

}  // namespace

void limit_cpu_isa(CpuIsa most) {
  const std::int64_t beyond = highway_targets_beyond(std::min(most, detect_cpu_isa()));
  if ((HWY_TARGETS & ~beyond) == 0)
    fail(
        "the CPU's vector units cannot be limited to {}: this build has kernels for {} alone; configure it with "
        "-DHEADROOM_VECTOR_UNITS=ALL",
        name_of(most), compiled_vector_units().front());
  if (dnnl::set_max_cpu_isa(onednn_isa(most)) != dnnl::status::success)
    fail("the CPU's vector units cannot be limited to {}: oneDNN has been used already", name_of(most));
  limit_detected_isa(most);
  hwy::DisableTargets(beyond);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace headroom
