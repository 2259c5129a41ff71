#include "ir/builder.hpp"

#include <fmt/ranges.h>

#include <stdexcept>
#include <utility>

#include "base/error.hpp"
#include "ir/text.hpp"

namespace headroom {
namespace {

/// Graphs hold non-negative axes only, so that equal nodes look equal. One that is out of range is left to infer().
std::int64_t count_from_front(int axis, const Shape& shape) { return axis < 0 ? axis + shape.rank() : axis; }

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

ValueId Builder::param(std::string_view name, TensorType type) {
  std::string full_name = path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
  const ValueId known = graph_.find(ValueKind::kParam, full_name);
  if (known == kNoValue) return graph_.add_param(std::move(full_name), type);
  if (graph_.type(known) != type) {
    throw std::logic_error(fmt::format("the param {} is used as {} and as {}", full_name, graph_.type(known), type));
  }
  return known;
}

std::vector<ValueId> Builder::emit(Op op, std::vector<ValueId> inputs,
                                   std::vector<std::pair<std::string_view, Attribute>> attributes) {
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
  return emit(Op::kCast, {x}, {{"dtype", dtype}})[0];
}

ValueId Builder::linear(ValueId x, ValueId weight, ValueId bias, std::string_view activation) {
  std::vector<ValueId> inputs = {x, weight};
  if (bias != kNoValue) inputs.push_back(bias);
  return emit(Op::kLinear, std::move(inputs), {{"activation", std::string(activation)}})[0];
}

std::pair<ValueId, ValueId> Builder::quantize(ValueId x, DType dtype) {
  const std::vector<ValueId> results = emit(Op::kQuantize, {x}, {{"dtype", dtype}});
  return {results[0], results[1]};
}

ValueId Builder::dequantize_rows(ValueId q, ValueId scale) {
  return mul(cast(q, DType::kF32), reshape(scale, {shape(q)[0], 1}));
}

ValueId Builder::matmul(ValueId a, ValueId b, bool transpose_b) {
  return emit(Op::kMatmul, {a, b}, {{"transpose_b", std::int64_t{transpose_b}}})[0];
}

ValueId Builder::softmax(ValueId x) { return emit(Op::kSoftmax, {x})[0]; }
ValueId Builder::attention(ValueId q, ValueId k, ValueId v, double scale) {
  return emit(Op::kAttention, {q, k, v}, {{"scale", scale}})[0];
}
ValueId Builder::layer_norm(ValueId x, double eps) { return emit(Op::kLayerNorm, {x}, {{"eps", eps}})[0]; }
ValueId Builder::rms_norm(ValueId x, ValueId weight, double eps) {
  return emit(Op::kRmsNorm, {x, weight}, {{"eps", eps}})[0];
}

std::pair<ValueId, ValueId> Builder::rope_table(ValueId ids, std::vector<std::int64_t> axes, double theta) {
  const std::vector<ValueId> results = emit(Op::kRopeTable, {ids}, {{"axes", std::move(axes)}, {"theta", theta}});
  return {results[0], results[1]};
}

ValueId Builder::rope(ValueId x, ValueId cos, ValueId sin) { return emit(Op::kRope, {x, cos, sin})[0]; }

ValueId Builder::timestep_embedding(ValueId t, std::int64_t dim, double scale) {
  return emit(Op::kTimestepEmbedding, {t}, {{"dim", dim}, {"scale", scale}})[0];
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
  return emit(Op::kReshape, {x}, {{"shape", std::move(shape)}})[0];
}

ValueId Builder::transpose(ValueId x, std::vector<std::int64_t> perm) {
  return emit(Op::kTranspose, {x}, {{"perm", std::move(perm)}})[0];
}

ValueId Builder::concat(std::vector<ValueId> parts, int axis) {
  HR_CHECK(!parts.empty());
  const std::int64_t resolved = count_from_front(axis, shape(parts[0]));
  return emit(Op::kConcat, std::move(parts), {{"axis", resolved}})[0];
}

ValueId Builder::slice(ValueId x, int axis, std::int64_t start, std::int64_t size) {
  return emit(Op::kSlice, {x}, {{"axis", count_from_front(axis, shape(x))}, {"start", start}, {"size", size}})[0];
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

ValueId Builder::conv2d(ValueId x, ValueId weight, ValueId bias, std::int64_t stride, std::int64_t padding) {
  return emit(Op::kConv2d, {x, weight, bias}, {{"stride", stride}, {"padding", padding}})[0];
}

ValueId Builder::max_pool2d(ValueId x, std::int64_t window) {
  return emit(Op::kMaxPool2d, {x}, {{"window", window}})[0];
}

ValueId Builder::mean(ValueId x, int from_axis) {
  return emit(Op::kMean, {x}, {{"axis", count_from_front(from_axis, shape(x))}})[0];
}

std::vector<ValueId> Builder::fused(std::vector<ValueId> inputs, const Graph& body) {
  return emit(Op::kFused, std::move(inputs), {{"body", canonical_text(body)}});
}

}  // namespace headroom
