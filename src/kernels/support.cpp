#include "kernels/support.hpp"

namespace headroom {

Support check_op(Op op, DeviceKind device, const OpSpec& spec, const Target& target) {
  if (spec.op != op) return Rejection{fmt::format("runs {}, not {}", name_of(op), name_of(spec.op))};
  if (target.device != device)
    return Rejection{fmt::format("runs on {}, not on {}", name_of(device), name_of(target.device))};
  return std::nullopt;
}

Support check_amx_op(Op op, const OpSpec& spec, const Target& target) {
  if (Support rejection = check_op(op, DeviceKind::kCpu, spec, target)) return rejection;
  if (spec.inputs[0].dtype != DType::kBF16) return Rejection{fmt::format("takes bf16, not {}", spec.inputs[0].dtype)};
  if (target.cpu_isa < CpuIsa::kAmx)
    return Rejection{fmt::format("needs AMX tiles; this CPU has {}", name_of(target.cpu_isa))};
  return std::nullopt;
}

}  // namespace headroom
