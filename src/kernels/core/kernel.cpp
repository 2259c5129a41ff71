#include "kernels/core/kernel.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "ir/op_definition.hpp"

namespace headroom {
namespace {

double least_bytes(const OpSpec& spec) {
  double bytes = 0;
  for (const TensorType& output : spec.outputs) bytes += static_cast<double>(output.bytes());
  const bool reads_part = definition_of(spec.op).reads_part;
  for (std::size_t i = 0; i < spec.inputs.size(); ++i)
    bytes += static_cast<double>(reads_part && i == 0 ? spec.outputs[0].bytes() : spec.inputs[i].bytes());
  return bytes;
}

ComputeUnit unit_of(Op op, double flops) {
  if (is_contraction(op)) return ComputeUnit::kMatrix;
  return flops == 0 ? ComputeUnit::kNone : ComputeUnit::kVector;
}

/// As they come, most of them before main() begins: in no order to rely on.
std::vector<const Kernel*>& listed() {
  static std::vector<const Kernel*> kernels;
  return kernels;
}

std::vector<const Kernel*> in_order(DeviceKind device) {
  std::vector<const Kernel*> kernels;
  std::ranges::copy_if(listed(), std::back_inserter(kernels), [&](const Kernel* k) { return k->device() == device; });
  const auto turn = [](const Kernel* kernel) { return std::tuple(kernel->op(), kernel->tried()); };
  std::ranges::sort(kernels, {}, turn);
  const auto same = std::ranges::adjacent_find(kernels, {}, turn);
  if (same != kernels.end())
    throw std::logic_error(fmt::format("{} and {} do not say which is tried first", (*same)->name(), same[1]->name()));
  return kernels;
}

}  // namespace

Operand dense_operand(const TensorType& type) {
  const Shape& shape = type.shape;
  if (type.layout != Layout::kChannelsLast) return {type, row_major_strides(shape)};
  HR_CHECK_EQ(shape.rank(), 4);  // logically [b, c, h, w], in memory [b, h, w, c]
  const std::int64_t c = shape[1], h = shape[2], w = shape[3];
  return {type, Shape{h * w * c, 1, w * c, c}};
}

bool is_dense(const Operand& operand) {
  const Shape dense = dense_operand(operand.type).strides;
  for (int axis = 0; axis < dense.rank(); ++axis)
    if (operand.type.shape[axis] != 1 && operand.strides[axis] != dense[axis])
      return false;  // an extent of 1 is never stepped over
  return true;
}

StrideRule Kernel::input_strides(const OpSpec& /*spec*/, int /*input*/) const { return StrideRule::kDense; }
StrideRule Kernel::output_strides(const OpSpec& /*spec*/, int /*output*/) const { return StrideRule::kDense; }
std::string_view Kernel::compute_name(const OpSpec& spec) const { return name_of(compute_type(spec)); }
bool Kernel::may_overwrite(const OpSpec& /*spec*/, int /*input*/) const { return false; }

Cost Kernel::cost(const OpSpec& spec) const {
  const double flops = definition_of(spec.op).flops.count(spec.attributes, spec.inputs, spec.outputs);
  return {.bytes = least_bytes(spec), .flops = flops, .unit = unit_of(spec.op, flops)};
}

std::span<const Kernel* const> kernels_of(DeviceKind device) {
  static std::mutex mutex;
  static std::map<std::string_view, std::vector<const Kernel*>, std::less<>> known;
  const std::scoped_lock lock(mutex);
  const auto found = known.find(name_of(device));
  if (found != known.end()) return found->second;
  std::vector<const Kernel*> kernels = in_order(device);
  if (kernels.empty()) return {};  // none yet
  return known.emplace(name_of(device), std::move(kernels)).first->second;
}

const Kernel& kernel_named(std::string_view name) {
  const auto found = std::ranges::find(listed(), name, &Kernel::name);
  if (found == listed().end()) throw std::logic_error(fmt::format("no kernel is called {}", name));
  return **found;
}

void detail::list_kernel(const Kernel& kernel) { listed().push_back(&kernel); }

}  // namespace headroom
