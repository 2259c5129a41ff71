#pragma once

#include "kernels/core/kernel.hpp"

/// Checks that the supports() of all kernels begin with.
namespace headroom {

/// Why a kernel of `op` for `device` has nothing to do with a node: another op, another device.
[[nodiscard]] Support check_op(Op op, DeviceKind device, const OpSpec& spec, const Target& target);

/// Why a kernel on AMX tiles of `dtype` cannot run here.
[[nodiscard]] Support check_amx(DType dtype, const OpSpec& spec, const Target& target);

/// Why amx_gemm_inl.hpp does not take the GEMM of input 0 with a weight, which is input `weight`.
[[nodiscard]] Support check_amx_gemm(const OpSpec& spec, std::size_t weight);

/// The epilogues that a kernel computes, of the form activation(sum + operand), with an operand of the result's type.
enum class EpilogueForms : std::uint8_t {
  kNone,
  kActivation,
  kEither,  ///< an activation, or an operand that is added
  kBoth,    ///< an operand that is added, and then an activation
};
/// Why a kernel that takes these forms cannot compute the epilogue of a node.
[[nodiscard]] Support check_epilogue(const OpSpec& spec, EpilogueForms forms);
/// The activation that is the epilogue of a node, for a kernel that takes no other form.
[[nodiscard]] Activation only_activation_of(const OpSpec& spec);

/// Why GEMMs on a GPU do not take these dtypes: f32, bf16 or f16, the same in all inputs.
[[nodiscard]] Support check_float_gemm(const OpSpec& spec, const Target& target);

/// Why no kernel of a CPU takes a scaled_linear of these dtypes with this epilogue, or nothing.
[[nodiscard]] Support check_scaled_linear(const OpSpec& spec);

}  // namespace headroom
