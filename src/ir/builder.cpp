#include "ir/builder.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/error.hpp"
#include "ir/param_name.hpp"
#include "ir/text/text.hpp"

namespace headroom {
namespace {

/// Graphs hold non-negative axes only, so that equal nodes compare equal. infer() reports one that is out of range.
std::int64_t count_from_front(int axis, const Shape& shape) { return axis < 0 ? axis + shape.rank() : axis; }

std::vector<std::int64_t> extents_of(const Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }

template <std::size_t N>
std::vector<std::int64_t> as_list(const std::array<std::int64_t, N>& values) {
  return {values.begin(), values.end()};
}

}  // namespace

Builder::Scope::Scope(Builder& builder, std::string_view name) : builder_(builder), length_(builder.path_.size()) {
  if (!builder_.path_.empty() && !name.empty()) builder_.path_ += '.';
  builder_.path_ += name;
}

Builder::Scope::~Scope() { builder_.path_.resize(length_); }

Builder::Scope Builder::block(std::string_view name) {
  graph_.add_block(path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name));
  return Scope(*this, name);
}

Builder::Loop::Loop(Builder& builder, std::int64_t trip_count, std::string counter_name)
    : builder_(builder), outer_(builder.region_) {
  region_ = builder_.region_ = builder_.graph_.add_loop(outer_, trip_count, std::move(counter_name));
  counter_ = builder_.graph_.region(region_).counter;
}

Builder::Loop::~Loop() { builder_.region_ = outer_; }

std::vector<ValueId> Builder::build_branch(RegionId region, const Branch& branch) {
  const RegionId outer = std::exchange(region_, region);
  std::vector<ValueId> yields = branch();
  region_ = outer;
  return yields;
}

std::vector<ValueId> Builder::select(ValueId predicate, const Branch& then, const Branch& otherwise) {
  const RegionId region = graph_.add_then(region_, predicate);
  const std::vector<ValueId> yields = build_branch(region, then);
  return add_results(region, yields, build_branch(graph_.add_else(region), otherwise));
}

std::vector<ValueId> Builder::run_if(ValueId predicate, const Branch& then, const std::vector<ValueId>& instead) {
  const RegionId region = graph_.add_then(region_, predicate);
  return add_results(region, build_branch(region, then), instead);
}

std::vector<ValueId> Builder::add_results(RegionId region, const std::vector<ValueId>& yields,
                                          const std::vector<ValueId>& others) {
  HR_CHECK_EQ(yields.size(), others.size());
  std::vector<ValueId> results;
  for (std::size_t i = 0; i < yields.size(); ++i)
    results.push_back(graph_.add_region_result(region, yields[i], others[i]));
  return results;
}

ValueId Builder::param(std::string_view name, TensorType type, std::string_view checkpoint) {
  const std::string tensor = path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
  std::string full_name = join_param_name({.checkpoint = checkpoint, .tensor = tensor});
  const ValueId known = graph_.find(ValueKind::kParam, full_name);
  if (known == kNoValue) return graph_.add_param(std::move(full_name), type);
  if (graph_.type(known) != type) {
    throw std::logic_error(fmt::format("the param {} is used as {} and as {}", full_name, graph_.type(known), type));
  }
  return known;
}

std::vector<ValueId> Builder::emit(Op op, std::vector<ValueId> inputs, NamedAttributes attributes) {
  graph_.append(op, std::move(inputs), Attributes(op, std::move(attributes)), path_, region_);
  return graph_.nodes().back().results;
}

ValueId Builder::gelu(ValueId x, std::string_view approximate) {
  if (approximate == "tanh") return gelu_tanh(x);
  if (approximate == "none") return gelu_erf(x);
  fail("gelu: approximate must be \"tanh\" or \"none\", but was given \"{}\"", approximate);
}

ValueId Builder::cast(ValueId x, DType dtype) {
  if (graph_.type(x).dtype == dtype) return x;
  return emit(Op::kCast, {x}, {{attr::kDType, dtype}})[0];
}

ValueId Builder::linear(ValueId x, ValueId weight, const Linear& with) {
  return emit_with(Op::kLinear, {x, weight}, {with.bias}, {{attr::kEpilogue, Epilogue(with.activation)}})[0];
}

std::pair<ValueId, ValueId> Builder::quantize(ValueId x, DType dtype) {
  const std::vector<ValueId> results = emit(Op::kQuantize, {x}, {{attr::kDType, dtype}});
  return {results[0], results[1]};
}

ValueId Builder::dequantize_rows(ValueId q, ValueId scale) {
  return mul(cast(q, DType::kF32), reshape(scale, {shape(q)[0], 1}));
}

ValueId Builder::matmul(ValueId a, ValueId b, bool transpose_b) {
  return emit(Op::kMatmul, {a, b}, {{attr::kTransposeB, transpose_b}})[0];
}

ValueId Builder::softmax(ValueId x) { return emit(Op::kSoftmax, {x})[0]; }
ValueId Builder::attention(ValueId q, ValueId k, ValueId v, const Attention& with) {
  return emit_with(Op::kAttention, {q, k, v}, {with.bias},
                   {{attr::kScale, with.scale}, {attr::kCausal, with.causal}, {attr::kDiagonal, with.diagonal}})[0];
}
std::pair<ValueId, ValueId> Builder::attention_and_logsumexp(ValueId q, ValueId k, ValueId v, const Attention& with) {
  const std::vector<ValueId> results = emit_with(Op::kAttention, {q, k, v}, {with.bias},
                                                 {{attr::kScale, with.scale},
                                                  {attr::kCausal, with.causal},
                                                  {attr::kDiagonal, with.diagonal},
                                                  {attr::kLogsumexp, true}});
  return {results[0], results[1]};
}
ValueId Builder::merge_attention(ValueId x, ValueId logsumexp, int axis) {
  return emit(Op::kMergeAttention, {x, logsumexp}, {{attr::kAxis, count_from_front(axis, shape(x))}})[0];
}
ValueId Builder::layer_norm(ValueId x, double eps, const Affine& with) {
  return emit_with(Op::kLayerNorm, {x}, {with.weight, with.bias}, {{attr::kEps, eps}})[0];
}
ValueId Builder::rms_norm(ValueId x, ValueId weight, double eps) {
  return emit_with(Op::kRmsNorm, {x}, {weight}, {{attr::kEps, eps}})[0];
}
ValueId Builder::group_norm(ValueId x, std::int64_t groups, double eps, const Affine& with) {
  return emit_with(Op::kGroupNorm, {x}, {with.weight, with.bias}, {{attr::kGroups, groups}, {attr::kEps, eps}})[0];
}

ValueId Builder::constant(std::vector<double> values, Shape shape, DType dtype) {
  return emit(Op::kConstant, {},
              {{attr::kValues, std::move(values)}, {attr::kShape, extents_of(shape)}, {attr::kDType, dtype}})[0];
}
ValueId Builder::random(ValueId key, ValueId offset, Shape shape, Distribution distribution) {
  return emit(Op::kRandom, {key, offset}, {{attr::kShape, extents_of(shape)}, {attr::kDistribution, distribution}})[0];
}

std::pair<ValueId, ValueId> Builder::rope_table(ValueId ids, std::vector<std::int64_t> axes, double theta) {
  const std::vector<ValueId> results =
      emit(Op::kRopeTable, {ids}, {{attr::kAxes, std::move(axes)}, {attr::kTheta, theta}});
  return {results[0], results[1]};
}

ValueId Builder::rope(ValueId x, ValueId cos, ValueId sin) { return emit(Op::kRope, {x, cos, sin})[0]; }

ValueId Builder::timestep_embedding(ValueId t, std::int64_t dim, double scale) {
  return emit(Op::kTimestepEmbedding, {t}, {{attr::kDim, dim}, {attr::kScale, scale}})[0];
}

ValueId Builder::reshape(ValueId x, std::vector<std::int64_t> shape) {
  std::int64_t known = 1;
  std::int64_t* unknown = nullptr;
  for (std::int64_t& extent : shape) {
    if (extent != -1) {
      known *= extent;
    } else {
      if (unknown != nullptr)
        fail("reshape takes one extent of -1, but was given several: [{}]", fmt::join(shape, ", "));
      unknown = &extent;
    }
  }
  if (unknown != nullptr) {
    const std::int64_t numel = this->shape(x).numel();
    if (known <= 0 || numel % known != 0) {
      fail("reshape of {} to [{}]: the known extents must divide {} elements", this->shape(x), fmt::join(shape, ", "),
           numel);
    }
    *unknown = numel / known;
  }
  return emit(Op::kReshape, {x}, {{attr::kShape, std::move(shape)}})[0];
}

ValueId Builder::transpose(ValueId x, std::vector<std::int64_t> perm) {
  return emit(Op::kTranspose, {x}, {{attr::kPerm, std::move(perm)}})[0];
}

ValueId Builder::concat(std::vector<ValueId> parts, int axis) {
  HR_CHECK(!parts.empty());
  const std::int64_t resolved = count_from_front(axis, shape(parts[0]));
  const auto join = [&](std::vector<ValueId> some) {
    return emit(Op::kConcat, std::move(some), {{attr::kAxis, resolved}})[0];
  };
  for (const std::size_t most = schema_of(Op::kConcat).operands.most(); parts.size() > most;) {
    std::vector<ValueId> joined;
    for (std::size_t i = 0; i < parts.size(); i += most) {
      const std::vector<ValueId> some(parts.begin() + static_cast<std::ptrdiff_t>(i),
                                      parts.begin() + static_cast<std::ptrdiff_t>(std::min(i + most, parts.size())));
      joined.push_back(some.size() == 1 ? some.front() : join(some));
    }
    parts = std::move(joined);
  }
  return join(std::move(parts));
}

ValueId Builder::slice(ValueId x, int axis, std::int64_t start, std::int64_t size) {
  return emit(Op::kSlice, {x},
              {{attr::kAxis, count_from_front(axis, shape(x))}, {attr::kStart, start}, {attr::kExtent, size}})[0];
}

std::vector<ValueId> Builder::chunk(ValueId x, int parts, int axis) {
  HR_CHECK_LE(1, parts);
  const std::int64_t extent = shape(x)[axis];
  if (extent % parts != 0) fail("{} parts do not divide axis {} of {}", parts, axis, shape(x));
  std::vector<ValueId> chunks;
  chunks.reserve(static_cast<std::size_t>(parts));
  for (int i = 0; i < parts; ++i) chunks.push_back(slice(x, axis, i * (extent / parts), extent / parts));
  return chunks;
}

ValueId Builder::row(ValueId table, ValueId index) { return emit(Op::kRow, {table, index})[0]; }

ValueId Builder::gather(ValueId table, ValueId ids) { return emit(Op::kGather, {table, ids})[0]; }
ValueId Builder::scatter_add(ValueId x, ValueId ids, ValueId updates) {
  return emit(Op::kScatterAdd, {x, ids, updates})[0];
}
ValueId Builder::pad(ValueId x, std::vector<std::int64_t> before, std::vector<std::int64_t> after, double value) {
  return emit(Op::kPad, {x},
              {{attr::kBefore, std::move(before)}, {attr::kAfter, std::move(after)}, {attr::kValue, value}})[0];
}
ValueId Builder::broadcast(ValueId x, Shape shape) {
  return emit(Op::kBroadcast, {x}, {{attr::kShape, extents_of(shape)}})[0];
}
ValueId Builder::where(ValueId condition, ValueId a, ValueId b) { return emit(Op::kSelect, {condition, a, b})[0]; }

ValueId Builder::conv2d(ValueId x, ValueId weight, ValueId bias, const Convolution& how) {
  return emit_with(Op::kConv2d, {x, weight}, {bias},
                   {{attr::kStride, as_list(how.stride)},
                    {attr::kPadding, as_list(how.padding)},
                    {attr::kDilation, as_list(how.dilation)},
                    {attr::kGroups, how.groups}})[0];
}
ValueId Builder::conv_transpose2d(ValueId x, ValueId weight, ValueId bias, const Convolution& how,
                                  std::array<std::int64_t, 2> output_padding) {
  return emit_with(Op::kConvTranspose2d, {x, weight}, {bias},
                   {{attr::kStride, as_list(how.stride)},
                    {attr::kPadding, as_list(how.padding)},
                    {attr::kOutputPadding, as_list(output_padding)},
                    {attr::kDilation, as_list(how.dilation)},
                    {attr::kGroups, how.groups}})[0];
}
ValueId Builder::resize2d(ValueId x, std::array<std::int64_t, 2> size, ResizeMode mode) {
  return emit(Op::kResize2d, {x}, {{attr::kImageSize, as_list(size)}, {attr::kMode, mode}})[0];
}
ValueId Builder::max_pool2d(ValueId x, std::int64_t window) {
  return emit(Op::kMaxPool2d, {x}, {{attr::kWindow, window}})[0];
}
ValueId Builder::avg_pool2d(ValueId x, std::int64_t window) {
  return emit(Op::kAvgPool2d, {x}, {{attr::kWindow, window}})[0];
}

ValueId Builder::reduce(Op op, ValueId x, std::vector<std::int64_t> axes) {
  for (std::int64_t& axis : axes) axis = count_from_front(static_cast<int>(axis), shape(x));
  return emit(op, {x}, {{attr::kAxes, std::move(axes)}})[0];
}
ValueId Builder::sum(ValueId x, std::vector<std::int64_t> axes) { return reduce(Op::kSum, x, std::move(axes)); }
ValueId Builder::mean(ValueId x, std::vector<std::int64_t> axes) { return reduce(Op::kMean, x, std::move(axes)); }
ValueId Builder::amax(ValueId x, std::vector<std::int64_t> axes) { return reduce(Op::kAmax, x, std::move(axes)); }
ValueId Builder::amin(ValueId x, std::vector<std::int64_t> axes) { return reduce(Op::kAmin, x, std::move(axes)); }
ValueId Builder::argmax(ValueId x, int axis) {
  return emit(Op::kArgmax, {x}, {{attr::kAxis, count_from_front(axis, shape(x))}})[0];
}
std::pair<ValueId, ValueId> Builder::topk(ValueId x, std::int64_t k) {
  const std::vector<ValueId> results = emit(Op::kTopk, {x}, {{attr::kK, k}});
  return {results[0], results[1]};
}

std::vector<ValueId> Builder::emit_with(Op op, std::vector<ValueId> inputs, std::initializer_list<ValueId> optional,
                                        NamedAttributes attributes) {
  for (const ValueId operand : optional)
    if (operand != kNoValue) inputs.push_back(operand);
  return emit(op, std::move(inputs), std::move(attributes));
}

std::vector<ValueId> Builder::fused(std::vector<ValueId> inputs, const Graph& body) {
  return emit(Op::kFused, std::move(inputs), {{attr::kBody, canonical_text(body)}});
}

}  // namespace headroom
