#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "kernels/core/written_kernel.hpp"

namespace headroom {

/// All that tells one of the kernels that a library or a CPU's matrix tiles run from another. They compute in the dtype
/// of input 0.
struct LibraryTraits {
  std::string_view name;
  Op op;
  DeviceKind device = DeviceKind::kCpu;
  /// Called for its op and device, with operands that have elements.
  std::function<Support(const OpSpec& spec, const Target& target)> supports;
  std::uint32_t strided = 0;  ///< inputs (bits by number) whose outer strides are free; others are dense
  bool strides_output = true;
  ImageForm (*images)(const OpSpec& spec) = nullptr;  ///< of a convolution: Kernel::best_images()
  bool overwrites_residual = false;  ///< output 0 may be written over the operand of an epilogue, given equal types
  std::function<KernelPlan(const KernelBinding& binding)> plan;
};
inline constexpr std::uint32_t kAllStrided = ~std::uint32_t{0};

/// A kernel given by its traits.
class LibraryKernel : public Kernel {
 public:
  explicit LibraryKernel(LibraryTraits traits) : traits_(std::move(traits)) {}

  [[nodiscard]] std::string_view name() const override { return traits_.name; }
  [[nodiscard]] Op op() const override { return traits_.op; }
  [[nodiscard]] DeviceKind device() const override { return traits_.device; }
  [[nodiscard]] Support supports(const OpSpec& spec, const Target& target) const override;
  [[nodiscard]] StrideRule input_strides(const OpSpec& /*spec*/, int input) const override {
    return rule((traits_.strided >> static_cast<unsigned>(input) & 1U) != 0);
  }
  [[nodiscard]] StrideRule output_strides(const OpSpec& /*spec*/, int /*output*/) const override {
    return rule(traits_.strides_output);
  }
  [[nodiscard]] bool may_overwrite(const OpSpec& spec, int input, int output) const override;
  [[nodiscard]] ImageForm best_images(const OpSpec& spec) const override {
    return traits_.images == nullptr ? ImageForm{} : traits_.images(spec);
  }
  [[nodiscard]] DType compute_type(const OpSpec& spec) const override { return spec.inputs[0].dtype; }
  [[nodiscard]] std::string_view compute_name(const OpSpec& spec) const override;
  [[nodiscard]] std::unique_ptr<PreparedKernel> prepare(const OpSpec& spec, std::span<const Operand> inputs,
                                                        std::span<const Operand> outputs,
                                                        const DeviceTarget& target) const override;

 private:
  [[nodiscard]] StrideRule rule(bool strided) const;

  LibraryTraits traits_;
};

/// Whether a GPU rounds the operands of a GEMM to TF32 on tensor cores: f32 that may be.
[[nodiscard]] bool rounds_to_tf32(const OpSpec& spec);

}  // namespace headroom
