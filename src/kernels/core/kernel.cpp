#include "kernels/core/kernel.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "base/error.hpp"
#include "ir/op_definition.hpp"
#include "kernels/core/listed_kernels.hpp"
#include "kernels/core/simd_targets.hpp"

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

/// All kernels of the program.
struct Kernels {
  Kernels() { std::ranges::copy(listed_cuda_kernels(), std::back_inserter(all)); }

  std::mutex mutex;
  std::vector<const Kernel*> all = listed_cpu_kernels();  ///< as they are listed, and then as they were added
  std::map<std::string_view, std::vector<const Kernel*>, std::less<>> by_device;  ///< those that kernels_of() returned
};
Kernels& known_kernels() {
  static Kernels kernels;
  return kernels;
}

/// A build for one machine alone may have come to another.
void check_vector_units() {
  if (highway_target_name().empty())
    fail(
        "this build has kernels for CPUs with {} alone, which this CPU lacks; build headroom on this machine, or with "
        "-DHEADROOM_VECTOR_UNITS=ALL for all CPUs",
        fmt::join(compiled_vector_units(), ", "));
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
bool Kernel::may_overwrite(const OpSpec& /*spec*/, int /*input*/, int /*output*/) const { return false; }

Cost Kernel::cost(const OpSpec& spec) const {
  const double flops = definition_of(spec.op).flops.count(spec.attributes, spec.inputs, spec.outputs);
  return {.bytes = least_bytes(spec), .flops = flops, .unit = unit_of(spec.op, flops)};
}

std::span<const Kernel* const> kernels_of(DeviceKind device) {
  Kernels& known = known_kernels();
  const std::scoped_lock lock(known.mutex);
  const auto found = known.by_device.find(name_of(device));
  if (found != known.by_device.end()) return found->second;
  if (device == DeviceKind::kCpu) check_vector_units();
  std::vector<const Kernel*> kernels;
  std::ranges::copy_if(known.all, std::back_inserter(kernels), [&](const Kernel* k) { return k->device() == device; });
  if (kernels.empty()) return {};  // none yet
  std::ranges::stable_sort(kernels, {}, &Kernel::op);
  return known.by_device.emplace(name_of(device), std::move(kernels)).first->second;
}

const Kernel& kernel_named(std::string_view name) {
  Kernels& known = known_kernels();
  const std::scoped_lock lock(known.mutex);
  const auto found = std::ranges::find(known.all, name, &Kernel::name);
  if (found == known.all.end()) throw std::logic_error(fmt::format("no kernel is called {}", name));
  return **found;
}

void add_kernels(std::span<const Kernel* const> kernels) {
  Kernels& known = known_kernels();
  const std::scoped_lock lock(known.mutex);
  for (const Kernel* kernel : kernels)
    if (known.by_device.contains(name_of(kernel->device())))
      throw std::logic_error(fmt::format("{} is added after its device's kernels were asked for", kernel->name()));
  std::ranges::copy(kernels, std::back_inserter(known.all));
}

}  // namespace headroom
