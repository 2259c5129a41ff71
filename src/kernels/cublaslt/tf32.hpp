#pragma once

#include "kernels/kernel.hpp"

namespace headroom::cublaslt {

/// Whether the operands of a linear, matmul or attention are rounded to TF32 on tensor cores: f32 that may be.
[[nodiscard]] inline bool rounds_to_tf32(const OpSpec& spec) {
  return spec.inputs[0].dtype == DType::kF32 && spec.attributes.get_int("tf32") != 0;
}

/// compute_name() of such a kernel.
[[nodiscard]] inline std::string_view compute_name(const OpSpec& spec) {
  return rounds_to_tf32(spec) ? "tf32" : name_of(spec.inputs[0].dtype);
}

}  // namespace headroom::cublaslt
