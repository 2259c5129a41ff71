#include <array>
#include <utility>

#include "base/error.hpp"
#include "kernels/vendor/cudnn/convolution_graph.cuh"

namespace headroom::cudnn {
namespace {

constexpr std::int64_t kAlignment = 16;

cudnnDataType_t data_type(DType dtype) {
  if (dtype == DType::kF32) return CUDNN_DATA_FLOAT;
  if (dtype == DType::kF16) return CUDNN_DATA_HALF;
  HR_CHECK(dtype == DType::kBF16);
  return CUDNN_DATA_BFLOAT16;
}

/// Strides of a dense tensor of four axes: images, weights and biases lie alike.
Shape strides_of(const Shape& shape, Layout layout) { return dense_operand({DType::kF32, shape, layout}).strides; }

cudnnPointwiseMode_t mode_of(Activation activation) {
  if (activation == Activation::kGeluTanh) return CUDNN_POINTWISE_GELU_APPROX_TANH_FWD;
  return activation == Activation::kGeluErf ? CUDNN_POINTWISE_GELU_FWD : CUDNN_POINTWISE_SWISH_FWD;
}

Descriptor make_window(const Builder::Convolution& how) {
  const std::array<std::int64_t, 2> before{how.padding[0], how.padding[1]}, after{how.padding[2], how.padding[3]};
  const auto pair = [](const std::array<std::int64_t, 2>& values) { return std::span<const std::int64_t>(values); };
  Descriptor window(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  window.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, std::int64_t{2})
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, pair(before))
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, pair(after))
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, pair(how.dilation))
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, pair(how.stride))
      .finalize();
  return window;
}

}  // namespace

DType made_dtype(const convolutions::Problem& problem, Fusion fusion) {
  return fusion == Fusion::kSums && has_epilogue(problem) ? DType::kF32 : problem.dtype;
}

ConvolutionGraph::ConvolutionGraph(const convolutions::Problem& problem, Fusion fusion, Context& context)
    : problem_(problem), made_(made_dtype(problem, fusion)) {
  const bool is_whole = fusion == Fusion::kWhole;
  const bool activates = is_whole && problem.activation != Activation::kNone && problem.activation != Activation::kRelu;
  const bool adds_residual = is_whole && problem.has_residual, adds_bias = is_whole && problem.bias.has_value();
  std::size_t value = add_between_or_made(!adds_bias && !adds_residual && !activates);
  std::vector<std::size_t> operations = {add_sums(value)};
  const auto follow = [&](cudnnPointwiseMode_t mode, const std::size_t* other, bool is_last) {
    const std::size_t next = add_between_or_made(is_last);
    operations.push_back(add_pointwise(mode, value, other, next));
    value = next;
  };
  if (adds_bias) {
    const Shape channels{1, problem.y[1], 1, 1};
    const std::size_t bias = add_image(kAddedBias, data_type(*problem.bias), channels, true);
    follow(CUDNN_POINTWISE_ADD, &bias, !adds_residual && !activates);
  }
  if (adds_residual) {
    const std::size_t residual = add_image(kAddedResidual, data_type(problem.dtype), problem.y, true);
    follow(CUDNN_POINTWISE_ADD, &residual, !activates);
  }
  if (activates) follow(mode_of(problem.activation), nullptr, true);

  std::vector<cudnnBackendDescriptor_t> nodes;
  for (const std::size_t operation : operations) nodes.push_back(parts_[operation].get());
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            std::span<const cudnnBackendDescriptor_t>(nodes));
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, context.handle());
  add(std::move(graph.finalize()));
}

std::size_t ConvolutionGraph::add(Descriptor part) {
  parts_.push_back(std::move(part));
  return parts_.size() - 1;
}

std::size_t ConvolutionGraph::add_image(std::int64_t uid, cudnnDataType_t type, const Shape& shape, bool is_stored) {
  const Shape strides = strides_of(shape, problem_.layout);
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, uid)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, shape.dims())
      .set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides.dims())
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kAlignment)
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, !is_stored)
      .finalize();
  return add(std::move(tensor));
}

std::size_t ConvolutionGraph::add_between_or_made(bool is_last) {
  if (is_last) return add_image(kMade, data_type(made_), problem_.y, true);
  return add_image(between_++, CUDNN_DATA_FLOAT, problem_.y, false);
}

/// A transposed convolution is the gradient of the image of one that makes our x.
std::size_t ConvolutionGraph::add_sums(std::size_t to) {
  const cudnnDataType_t type = data_type(problem_.dtype);
  const std::size_t x = add_image(kConvolved, type, problem_.x, true);
  const std::size_t weight = add_image(kFilter, type, problem_.weight, true);
  const std::size_t window = add(make_window(problem_.how));
  const float one = 1.0F, zero = 0.0F;
  if (problem_.is_transposed) {
    Descriptor sums(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
    sums.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, parts_[x])
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, parts_[weight])
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, parts_[to])
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, parts_[window])
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_TYPE_FLOAT, one)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_TYPE_FLOAT, zero)
        .finalize();
    return add(std::move(sums));
  }
  Descriptor sums(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  sums.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, parts_[x])
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, parts_[weight])
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, parts_[to])
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, parts_[window])
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, one)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, zero)
      .finalize();
  return add(std::move(sums));
}

std::size_t ConvolutionGraph::add_pointwise(cudnnPointwiseMode_t mode, std::size_t from, const std::size_t* other,
                                            std::size_t to) {
  Descriptor function(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  function.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode)
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .finalize();
  const std::size_t applied = add(std::move(function));
  Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, parts_[applied])
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, parts_[from])
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, parts_[to]);
  if (other != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, parts_[*other]);
  operation.finalize();
  return add(std::move(operation));
}

}  // namespace headroom::cudnn
