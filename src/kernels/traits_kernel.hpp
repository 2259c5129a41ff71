#pragma once

#include "kernels/support.hpp"

namespace headroom {

/// A kernel for `device` that answers from its traits: its name, its op, what it supports, the strides and the dtype of
/// arithmetic, by these names.
template <DeviceKind device, typename Traits>
class TraitsKernel : public Kernel {
 public:
  explicit TraitsKernel(const Traits& traits) : traits_(traits) {}

  [[nodiscard]] std::string_view name() const override { return traits_.name; }
  [[nodiscard]] Op op() const override { return traits_.op; }
  [[nodiscard]] Support supports(const OpSpec& spec, const Target& target) const override {
    if (Support rejection = check_op(traits_.op, device, spec, target)) return rejection;
    return traits_.supports(spec);
  }
  [[nodiscard]] StrideRule input_strides(const OpSpec& /*spec*/, int /*input*/) const override {
    return traits_.strides;
  }
  [[nodiscard]] StrideRule output_strides(const OpSpec& /*spec*/, int /*output*/) const override {
    return traits_.strides;
  }
  /// A copy reports the dtype of what it moves.
  [[nodiscard]] DType compute_type(const OpSpec& spec) const override {
    return cost(spec).unit == ComputeUnit::kNone ? spec.outputs[0].dtype : traits_.compute;
  }

 protected:
  [[nodiscard]] const Traits& traits() const { return traits_; }

 private:
  Traits traits_;
};

}  // namespace headroom
