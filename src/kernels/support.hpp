#pragma once

#include "kernels/kernel.hpp"

/// What supports() of all kernels looks at first.
namespace headroom {

/// Why a kernel of `op` for `device` has nothing to do with a node: another op, another device.
[[nodiscard]] Support check_op(Op op, DeviceKind device, const OpSpec& spec, const Target& target);

/// The same for a CPU's kernel on AMX tiles in bf16, and why it cannot run here.
[[nodiscard]] Support check_amx_op(Op op, const OpSpec& spec, const Target& target);

}  // namespace headroom
