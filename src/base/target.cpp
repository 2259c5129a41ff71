#include "base/target.hpp"

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
  return target.device->obstacle_to(capability, target);
}

}  // namespace headroom
