#pragma once

#include <functional>
#include <oneapi/dnnl/dnnl.hpp>

#include "ir/builder.hpp"
#include "kernels/vendor/onednn/engine.hpp"

/// Code that conv2d and conv_transpose2d share on oneDNN.
namespace headroom::onednn {

/// The layout of images for a primitive: that of the op's operands, or the one that oneDNN prefers.
enum class ImageLayout : std::uint8_t { kGiven, kBest };

/// Describes an image operand for a primitive.
[[nodiscard]] dnnl::memory::desc describe_image(const TensorType& type, ImageLayout layout);
/// The weight's layout in the checkpoint: [o, i, kh, kw] in oneDNN's order, with the groups first if there are
/// several. If `is_transposed`, i precedes o.
[[nodiscard]] dnnl::memory::desc describe_filter(const TensorType& weight, std::int64_t groups, bool is_transposed);
/// The same extents in any layout.
[[nodiscard]] dnnl::memory::desc any_layout_of(const dnnl::memory::desc& desc);

struct Window {
  dnnl::memory::dims strides, dilates, padding_before, padding_after;
};
[[nodiscard]] Window window_of(const Builder::Convolution& how);

/// Makes a primitive's description, or an empty one where oneDNN has none.
using MakeConvolution = std::function<dnnl::primitive_desc_base(ImageLayout)>;
/// In the preferred layout, or in the other if oneDNN has only its slow reference for that.
[[nodiscard]] dnnl::primitive_desc_base choose_convolution(ImageLayout preferred, const MakeConvolution& make);

/// Why oneDNN takes no convolution of these operands.
[[nodiscard]] Support check_convolution(const OpSpec& spec, const Target& target);

/// Runs x, weight and bias through the primitive. A folded weight is packed; images, and other weights, are
/// converted if the primitive wants another layout. A residual already lies where the result goes, or is copied
/// there. A relu is a pass of its own.
[[nodiscard]] KernelPlan plan_convolution(const KernelBinding& binding, const dnnl::primitive_desc_base& convolution,
                                          const dnnl::memory::desc& filter);

}  // namespace headroom::onednn
