#include "kernels/vendor/onednn/phases.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ir/convolution.hpp"
#include "kernels/vendor/onednn/engine.hpp"

namespace headroom::onednn {
namespace {

/// A phase along one axis: y[stride*m + r] = sum_u weight[last_tap - stride*u] * x[m + u - before].
struct AxisPhase {
  std::int64_t results = 0;             ///< how many m there are
  std::int64_t taps = 0, last_tap = 0;  ///< u counts up to taps
  std::int64_t before = 0, after = 0;   ///< zero padding of x
  [[nodiscard]] bool is_convolution() const { return results > 0 && taps > 0 && before >= 0 && after >= 0; }
};

/// r + padding - k must be a multiple of the stride for tap k; the least such k is then heard from row m + ahead of x.
AxisPhase phase_of(std::int64_t x, std::int64_t y, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                   std::int64_t r) {
  const std::int64_t first_tap = (r + padding) % stride, ahead = (r + padding - first_tap) / stride;
  AxisPhase phase{.results = divide_up(y - r, stride), .taps = divide_up(kernel - first_tap, stride)};
  phase.last_tap = first_tap + (phase.taps - 1) * stride;
  phase.before = phase.taps - 1 - ahead;
  phase.after = phase.results - x - phase.before + phase.taps - 1;
  return phase;
}

/// One phase of both axes, as oneDNN runs it.
struct Phase {
  std::array<AxisPhase, 2> axes;
  dnnl::memory::desc filter;      ///< as the convolution wants it
  std::size_t filter_offset = 0;  ///< in the packed weight
  std::size_t result_offset = 0;  ///< in y, bytes
  std::shared_ptr<const Call> convolve, place;
};

/// The taps of a phase, dense and in order: [o, c, taps down, taps across], of weight[c, o, kh, kw].
std::vector<std::byte> taps_of(const Phase& phase, const TensorType& weight, const Builder::Convolution& how,
                               const std::byte* from) {
  const Shape& shape = weight.shape;
  const std::size_t size = size_of(weight.dtype);
  const auto& [down, across] = phase.axes;
  std::vector<std::byte> taps(static_cast<std::size_t>(shape[1] * shape[0] * down.taps * across.taps) * size);
  std::byte* to = taps.data();
  for (std::int64_t o = 0; o < shape[1]; ++o)
    for (std::int64_t c = 0; c < shape[0]; ++c)
      for (std::int64_t u = 0; u < down.taps; ++u)
        for (std::int64_t v = 0; v < across.taps; ++v, to += size) {
          const std::int64_t row = down.last_tap - u * how.stride[0], column = across.last_tap - v * how.stride[1];
          const std::int64_t at = ((c * shape[1] + o) * shape[2] + row) * shape[3] + column;
          std::memcpy(to, from + static_cast<std::size_t>(at) * size, size);
        }
  return taps;
}

Shape filter_shape(const Phase& phase, const Shape& weight) {
  return Shape{weight[1], weight[0], phase.axes[0].taps, phase.axes[1].taps};
}

class Phases {
 public:
  explicit Phases(const KernelBinding& binding)
      : binding_(binding), how_(convolution_of(binding.spec.attributes)), weight_(binding.spec.input(Role::kWeight)) {}

  [[nodiscard]] bool add_all() {
    for (std::int64_t down = 0; down < how_.stride[0]; ++down)
      for (std::int64_t across = 0; across < how_.stride[1]; ++across)
        if (!add(down, across)) return false;
    return true;
  }

  [[nodiscard]] KernelPlan plan() const {
    const std::size_t image = whole_lines(image_bytes_);
    KernelPlan made{
        .launch = {},
        .scratch_bytes = image + scratch_bytes_,
        .implementation = fmt::format("{} x {}", phases_.size(), implementation_),
        .packed = {{1, fmt::format("phases of {} padded {}:{}", how_.stride, how_.padding, layouts_), packed_bytes_}}};
    made.pack = [phases = phases_, weight = weight_, how = how_](Stream& /*stream*/, DevicePointer from,
                                                                 DevicePointer to) {
      for (const Phase& phase : phases) {
        std::vector<std::byte> taps = taps_of(phase, weight, how, from.address<std::byte>());
        const Shape shape = filter_shape(phase, weight.shape);
        repack(describe(weight.dtype, shape, row_major_strides(shape)), taps.data(), phase.filter,
               to.address<std::byte>() + phase.filter_offset);
      }
    };
    made.launch = [phases = phases_, image](const LaunchArguments& arguments) {
      auto* const made_here = arguments.scratch_memory<std::byte>();
      std::byte* const scratch = made_here + image;
      for (const Phase& phase : phases) {
        phase.convolve->run({.src = arguments.input(0),
                             .weights = arguments.input<std::byte>(1) + phase.filter_offset,
                             .bias = arguments.optional_input(2),
                             .dst = made_here,
                             .scratch = scratch});
        phase.place->run(
            {.src = made_here, .dst = arguments.output<std::byte>(0) + phase.result_offset, .scratch = scratch});
      }
    };
    return made;
  }

 private:
  bool add(std::int64_t down, std::int64_t across) {
    const OpSpec& spec = binding_.spec;
    const TensorType& x = spec.inputs[0];
    const TensorType& y = spec.outputs[0];
    Phase phase;
    const std::array offsets = {down, across};
    for (int axis = 0; axis < 2; ++axis)
      phase.axes[axis] = phase_of(x.shape[2 + axis], y.shape[2 + axis], weight_.shape[2 + axis], how_.stride[axis],
                                  how_.padding[axis], offsets[axis]);
    if (!phase.axes[0].is_convolution() || !phase.axes[1].is_convolution()) return false;

    TensorType image = y;
    image.shape = Shape{y.shape[0], y.shape[1], phase.axes[0].results, phase.axes[1].results};
    const dnnl::memory::desc made = describe(dense_operand(image));
    const auto convolution = make_convolution(phase, made);
    if (!convolution || is_reference(convolution.impl_info_str())) return false;
    const Shape strides = dense_operand(y).strides;
    const Shape apart{strides[0], strides[1], how_.stride[0] * strides[2], how_.stride[1] * strides[3]};
    const dnnl::reorder::primitive_desc placing(cpu_engine(), made, cpu_engine(), describe(y.dtype, image.shape, apart),
                                                attributes_with_user_scratch());
    phase.filter = convolution.query_md(dnnl::query::weights_md, 0);
    phase.filter_offset = packed_bytes_;
    phase.result_offset = static_cast<std::size_t>(down * strides[2] + across * strides[3]) * size_of(y.dtype);
    phase.convolve = std::make_shared<const Call>(convolution, binding_.threads);
    phase.place = std::make_shared<const Call>(placing, binding_.threads);
    packed_bytes_ += whole_lines(phase.filter.get_size());
    layouts_ += " " + layout_name(phase.filter);
    image_bytes_ = std::max(image_bytes_, made.get_size());
    scratch_bytes_ =
        std::max({scratch_bytes_, convolution.scratchpad_desc().get_size(), placing.scratchpad_desc().get_size()});
    implementation_ = convolution.impl_info_str();
    phases_.push_back(std::move(phase));
    return true;
  }

  [[nodiscard]] dnnl::convolution_forward::primitive_desc make_convolution(const Phase& phase,
                                                                           const dnnl::memory::desc& made) const {
    using Forward = dnnl::convolution_forward;
    const OpSpec& spec = binding_.spec;
    const auto bias = spec.has(Role::kBias) ? describe(dense_operand(spec.input(Role::kBias))) : dnnl::memory::desc();
    const Forward::desc desc(dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
                             describe(dense_operand(spec.inputs[0])),
                             describe_any(weight_.dtype, filter_shape(phase, weight_.shape)), bias, made, {1, 1},
                             {phase.axes[0].before, phase.axes[1].before}, {phase.axes[0].after, phase.axes[1].after});
    return {desc, attributes_with_user_scratch(), cpu_engine(), /*allow_empty=*/true};
  }

  const KernelBinding& binding_;
  Builder::Convolution how_;
  TensorType weight_;  // [c, o, kh, kw]
  std::vector<Phase> phases_;
  std::size_t packed_bytes_ = 0, image_bytes_ = 0, scratch_bytes_ = 0;
  std::string layouts_, implementation_;
};

}  // namespace

std::optional<KernelPlan> plan_phases(const KernelBinding& binding) {
  const OpSpec& spec = binding.spec;
  const Builder::Convolution how = convolution_of(spec.attributes);
  const bool is_one_phase = how.stride[0] * how.stride[1] == 1;
  for (const int axis :
       {0, 1})  // the last phases would end in the middle of a period, which oneDNN takes for an overlap
    if (spec.outputs[0].shape[2 + axis] % how.stride[static_cast<std::size_t>(axis)] != 0) return std::nullopt;
  const bool is_dilated = how.dilation[0] * how.dilation[1] != 1;
  if (is_one_phase || is_dilated || how.groups != 1 || !spec.has_weight_at(1)) return std::nullopt;
  if (spec.inputs[0].layout != Layout::kChannelsLast) return std::nullopt;
  Phases phases(binding);
  if (!phases.add_all()) return std::nullopt;
  return phases.plan();
}

}  // namespace headroom::onednn
