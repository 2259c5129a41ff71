#include "kernels/cpu_support.hpp"

namespace headroom {

Support check_cpu_op(Op op, const OpSpec& spec, const Target& target) {
  if (spec.op != op) return Rejection{fmt::format("runs {}, not {}", name_of(op), name_of(spec.op))};
  if (target.device != DeviceKind::kCpu)
    return Rejection{fmt::format("runs on a cpu, not on {}", name_of(target.device))};
  return std::nullopt;
}

Support check_amx_op(Op op, const OpSpec& spec, const Target& target) {
  if (Support rejection = check_cpu_op(op, spec, target)) return rejection;
  if (spec.inputs[0].dtype != DType::kBF16) return Rejection{fmt::format("takes bf16, not {}", spec.inputs[0].dtype)};
  if (target.cpu_isa < CpuIsa::kAmx)
    return Rejection{fmt::format("needs AMX tiles; this CPU has {}", name_of(target.cpu_isa))};
  return std::nullopt;
}

}  // namespace headroom
