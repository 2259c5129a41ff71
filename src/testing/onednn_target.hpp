#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>

#include "backends/backend.hpp"
#include "testing/compare.hpp"

/// For the tests of oneDNN kernels.
namespace headroom::onednn {

/// This machine, limited to the instruction set that oneDNN was given (ONEDNN_MAX_CPU_ISA, see isa_test.cpp).
inline DeviceTarget test_target() {
  DeviceTarget target = make_backend(DeviceKind::kCpu)->properties().target;
  const auto has = [effective = static_cast<unsigned>(dnnl::get_effective_cpu_isa())](dnnl::cpu_isa isa) {
    return (effective & static_cast<unsigned>(isa)) == static_cast<unsigned>(isa);
  };
  CpuIsa limit = CpuIsa::kPortable;
  if (has(dnnl::cpu_isa::avx2)) limit = CpuIsa::kAvx2;
  if (has(dnnl::cpu_isa::avx512_core)) limit = CpuIsa::kAvx512;
  if (has(dnnl::cpu_isa::avx512_core_vnni)) limit = CpuIsa::kAvx512Vnni;
  if (has(dnnl::cpu_isa::avx512_core_bf16)) limit = CpuIsa::kAvx512Bf16;
  if (has(dnnl::cpu_isa::avx512_core_amx)) limit = CpuIsa::kAmx;
  target.cpu_isa = std::min(target.cpu_isa, limit);
  return target;
}

/// Expects the kernel to agree with the oracle; operands that are not dense run on one thread. bf16 may be rejected,
/// with a reason that names AVX-512, only on a CPU without it.
inline void expect_agrees(std::string_view kernel, const OpSpec& spec, TestStrides strides = TestStrides::kDense,
                          std::uint64_t seed = 1) {
  DeviceTarget target = test_target();
  if (strides != TestStrides::kDense) target.threads = 1;
  if (spec.inputs[0].dtype == DType::kBF16 && target.cpu_isa < CpuIsa::kAvx512) {
    const Support rejection = kernel_named(kernel).supports(spec, target);
    ASSERT_TRUE(rejection.has_value());
    EXPECT_NE(rejection->reason.find("AVX-512"), std::string::npos) << rejection->reason;
    return;
  }
  const Comparison comparison =
      compare_with_oracle(kernel_named(kernel), spec, target, seed, default_tolerance(spec.outputs[0].dtype), strides);
  EXPECT_TRUE(comparison.passed) << comparison.message;
}

/// The kernel prepared for `spec` on dense operands.
inline std::unique_ptr<PreparedKernel> prepare_dense(std::string_view kernel, const OpSpec& spec,
                                                     const DeviceTarget& target) {
  std::vector<Operand> inputs, outputs;
  for (const TensorType& type : spec.inputs) inputs.push_back(dense_operand(type));
  for (const TensorType& type : spec.outputs) outputs.push_back(dense_operand(type));
  return kernel_named(kernel).prepare(spec, inputs, outputs, target);
}

}  // namespace headroom::onednn
