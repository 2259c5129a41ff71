// Small cases of any op, from the table of cases: an op that was added yesterday is generated, too.

#include <algorithm>

#include "differential/graph_maker.hpp"
#include "ir/op_definition.hpp"
#include "ir/test_cases/op_cases.hpp"
#include "ir/test_cases/value_range.hpp"
#include "kernels/core/kernel.hpp"

namespace headroom::differential {
namespace {

constexpr std::int64_t kMostElements = 8192;  // of an operand: the oracle is slow

/// Whether every CPU has a kernel for it; a GPU's graphs are made on machines without one.
bool has_kernel(const OpSpec& spec, DeviceKind device) {
  if (device != DeviceKind::kCpu) return true;
  const Target least{.device = device, .cpu_isa = CpuIsa::kPortable};
  return std::ranges::any_of(kernels_of(device), [&](const Kernel* kernel) {
    return kernel->op() == spec.op && !kernel->supports(spec, least);
  });
}

/// Bodies of fused ops have a generator of their own, whose values stay small; a CPU has no f8e4m3 matmuls.
bool is_fit(const OpCase& one, DeviceKind device) {
  const auto fits = [&](const TensorType& type) {
    const bool has_dtype = device == DeviceKind::kCuda || type.dtype != DType::kF8E4M3;
    return has_dtype && type.shape.numel() <= kMostElements;
  };
  return one.spec.op != Op::kFused && std::ranges::all_of(one.spec.inputs, fits) &&
         std::ranges::all_of(one.spec.outputs, fits) && has_kernel(one.spec, device);
}

}  // namespace

/// A value of the type of input `index`, of its range. A `restricted` one is from 0.5 to 4.
ValueId GraphMaker::case_operand(const OpSpec& spec, std::size_t index, bool restricted) {
  const TensorType& type = spec.inputs[index];
  const ValueRange range = value_range(spec, index);
  const bool is_scale =
      range.kind == ValueRange::kNormal && range != value_range(type.dtype) && !spec.has_weight_at(index);
  const TensorType given{type.dtype, type.shape};  // inputs and params are row-major
  if (is_scale) return laid(graph_.add_param(fresh("scale"), given), type.layout);
  if (spec.has_weight_at(index))
    return laid(graph_.add_param(fresh(type.shape.rank() == 1 ? "scale" : "w"), given), type.layout);
  if (range.kind == ValueRange::kUniform) return laid(graph_.add_input(fresh("time"), given), type.layout);
  if (!is_float(type.dtype) || range.kind == ValueRange::kIntegers)
    return laid(graph_.add_input(fresh("in"), given), type.layout);
  const ValueId x = operand(type);
  const bool is_above_0 = range.kind == ValueRange::kAboveZero;
  const ValueId bounded = restricted || is_above_0 ? b_.clamp(b_.add_scalar(b_.abs(x), 0.5), 0.5, 4) : x;
  return is_above_0 ? b_.mul_scalar(bounded, range.scale) : bounded;
}

void GraphMaker::add_case() {
  const std::span<const OpSchema> ops = all_ops();
  const Op op = choose_.from(ops).op;
  std::vector<OpCase> cases = small_cases(op, {dtype_, choose_.one_in(3) ? DType::kF32 : dtype_});
  std::erase_if(cases, [&](const OpCase& one) { return !is_fit(one, device_); });
  if (cases.empty()) return add_unary();
  const OpSpec& spec = choose_.from(cases).spec;
  const OpKind kind = definition_of(op).kind;
  std::vector<ValueId> operands;
  double largest = 1;
  for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
    operands.push_back(case_operand(spec, i, kind == OpKind::kElementwise));
    largest = std::max(largest, size(operands.back()));
  }
  const auto attributes = spec.attributes.all();
  // A power of restricted operands, and a sum of a few thousand elements.
  const double grows = kind == OpKind::kElementwise ? 256 : kind == OpKind::kView || kind == OpKind::kCopy ? 1 : 64;
  for (const ValueId result : b_.emit(op, std::move(operands), {attributes.begin(), attributes.end()}))
    keep(result, largest * grows);
}

}  // namespace headroom::differential
