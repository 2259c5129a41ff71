#pragma once

#include <cstdint>
#include <optional>

#include "kernels/core/kernel.hpp"

namespace headroom {

/// The arguments that a kernel is bound to.
struct KernelBinding {
  const OpSpec& spec;
  std::span<const Operand> inputs;
  std::span<const Operand> outputs;
  int threads;         ///< of a CPU, that launch may use
  bool exceeds_cache;  ///< operands together: results leave it before they are read
  const DeviceTarget& target;

  /// The operand with that role, which the op must have been given.
  [[nodiscard]] const Operand& input(Role role) const { return inputs[position_of(spec.op, role)]; }
};

/// All that tells one of the kernels written here from another.
struct KernelTraits {
  std::string_view name;
  Op op;
  Support (*supports)(const OpSpec& spec);
  StrideRule strides = StrideRule::kInnerDense;   ///< of every operand,
  std::optional<StrideRule> output_strides = {};  ///< but of results where they differ
  bool in_place = false;                          ///< output 0 may be written over any input of the same type,
  std::uint32_t kept = 0;                         ///< but for these (bits by number), which are read later
  DType compute = DType::kF32;                    ///< dtype of the arithmetic; copies report that of their elements
  KernelPlan (*plan)(const KernelBinding& binding);
};

/// A kernel given by its traits.
class WrittenKernel : public Kernel {
 public:
  WrittenKernel(DeviceKind device, const KernelTraits& traits) : device_(device), traits_(traits) {}

  [[nodiscard]] std::string_view name() const override { return traits_.name; }
  [[nodiscard]] Op op() const override { return traits_.op; }
  [[nodiscard]] DeviceKind device() const override { return device_; }
  [[nodiscard]] Support supports(const OpSpec& spec, const Target& target) const override;
  [[nodiscard]] StrideRule input_strides(const OpSpec& /*spec*/, int /*input*/) const override {
    return traits_.strides;
  }
  [[nodiscard]] StrideRule output_strides(const OpSpec& /*spec*/, int /*output*/) const override {
    return traits_.output_strides.value_or(traits_.strides);
  }
  [[nodiscard]] bool may_overwrite(const OpSpec& spec, int input, int output) const override;
  /// A copy reports the dtype of its elements.
  [[nodiscard]] DType compute_type(const OpSpec& spec) const override {
    return cost(spec).unit == ComputeUnit::kNone ? spec.outputs[0].dtype : traits_.compute;
  }
  [[nodiscard]] std::unique_ptr<PreparedKernel> prepare(const OpSpec& spec, std::span<const Operand> inputs,
                                                        std::span<const Operand> outputs,
                                                        const DeviceTarget& target) const override;

 private:
  DeviceKind device_;
  KernelTraits traits_;
};

/// Supported whatever the types are, as ir's infer() allows them.
[[nodiscard]] Support supports_all_types(const OpSpec& spec);
/// Supported where the operands are row-major, of any dtype.
[[nodiscard]] Support supports_row_major(const OpSpec& spec);
/// Supported if output 0 is f32, bf16 or, if said, f16, and every input has its dtype or f32 (per-channel vectors
/// next to a tensor of 16 bits).
[[nodiscard]] Support supports_stored(const OpSpec& spec, bool f16_too);

}  // namespace headroom
