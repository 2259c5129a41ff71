#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "base/error.hpp"
#include "ir/infer.hpp"
#include "ir/ops/families.hpp"
#include "ir/ops/gradient_parts.hpp"
#include "ir/test_cases/op_cases.hpp"

// Shape ops, and ops that move data.

namespace headroom::ops {
namespace {

/// Elements in one step along `axis`: the extents after it, multiplied.
std::size_t inner_size(const Shape& shape, int axis) {
  return static_cast<std::size_t>(Shape(shape.dims().subspan(static_cast<std::size_t>(axis) + 1)).numel());
}

}  // namespace

void copy_steps(const OracleTensor& x, std::int64_t from, OracleTensor& out, std::int64_t to, std::int64_t size,
                int axis) {
  const std::size_t inner = inner_size(x.type.shape, axis);
  const std::size_t x_pitch = inner * static_cast<std::size_t>(x.type.shape[axis]);
  const std::size_t out_pitch = inner * static_cast<std::size_t>(out.type.shape[axis]);
  const std::size_t outer = static_cast<std::size_t>(x.type.shape.numel()) / x_pitch;
  const std::size_t count = inner * static_cast<std::size_t>(size);
  const auto copy = [&](const auto& source, auto& target) {
    if (target.empty()) return;
    for (std::size_t o = 0; o < outer; ++o) {
      const auto* first = source.data() + o * x_pitch + inner * static_cast<std::size_t>(from);
      std::copy_n(first, count, target.data() + o * out_pitch + inner * static_cast<std::size_t>(to));
    }
  };
  copy(x.reals, out.reals);
  copy(x.integers, out.integers);
}

namespace {

std::vector<TensorType> reshape_types(const TypeQuery& given) {
  const std::vector<std::int64_t>& extents = given.attributes[attr::kShape];
  const bool positive = std::ranges::all_of(extents, [](std::int64_t extent) { return extent > 0; });
  if (!positive || extents.size() > static_cast<std::size_t>(Shape::kMaxRank) ||
      Shape(extents).numel() != given.in[0].shape.numel()) {
    fail("reshape: expected at most {} positive extents with {} elements for {}, but was given [{}]", Shape::kMaxRank,
         given.in[0].shape.numel(), given.in[0], fmt::join(extents, ", "));
  }
  return {{given.in[0].dtype, Shape(extents)}};
}

std::vector<TensorType> transpose_types(const TypeQuery& given) {
  const std::vector<std::int64_t>& perm = given.attributes[attr::kPerm];
  std::vector<std::int64_t> sorted = perm;
  std::ranges::sort(sorted);
  std::vector<std::int64_t> axes(static_cast<std::size_t>(given.in[0].shape.rank()));
  std::iota(axes.begin(), axes.end(), std::int64_t{0});
  if (sorted != axes) {
    fail("transpose: perm must name each axis of {} once, but was given [{}]", given.in[0], fmt::join(perm, ", "));
  }
  Shape shape;
  for (const std::int64_t axis : perm) shape.push_back(given.in[0].shape[static_cast<int>(axis)]);
  return {{given.in[0].dtype, shape}};
}

std::vector<TensorType> concat_types(const TypeQuery& given) {
  const int axis = axis_of(given);
  Shape shape = given.in[0].shape;
  for (const TensorType& part : given.in.subspan(1)) {
    given.require(part.dtype == given.in[0].dtype && part.shape.rank() == shape.rank(), "parts of one dtype and rank");
    const std::int64_t total = shape[axis] + part.shape[axis];
    shape.set(axis, part.shape[axis]);
    given.require(part.shape == shape, fmt::format("parts that differ in axis {} only", axis));
    shape.set(axis, total);
  }
  return {{given.in[0].dtype, shape, given.in[0].layout}};
}

std::vector<TensorType> slice_types(const TypeQuery& given) {
  const int axis = axis_of(given);
  const std::int64_t start = given.attributes[attr::kStart];
  const std::int64_t size = given.attributes[attr::kExtent];
  const std::int64_t extent = given.in[0].shape[axis];
  if (start < 0 || start >= extent || size < 1 || size > extent - start) {
    fail("slice: [{}, {} + {}) is not a stretch of axis {} of {}", start, start, size, axis, given.in[0]);
  }
  Shape shape = given.in[0].shape;
  shape.set(axis, size);
  return {{given.in[0].dtype, shape, given.in[0].layout}};
}

/// One number per axis of x, none of them negative.
bool are_margins(const std::vector<std::int64_t>& margins, const TensorType& x) {
  return margins.size() == static_cast<std::size_t>(x.shape.rank()) &&
         std::ranges::all_of(margins, [](std::int64_t margin) { return margin >= 0; });
}

std::vector<TensorType> pad_types(const TypeQuery& given) {
  const std::vector<std::int64_t>& before = given.attributes[attr::kBefore];
  const std::vector<std::int64_t>& after = given.attributes[attr::kAfter];
  const double value = given.attributes[attr::kValue];
  const TensorType& x = given.in[0];
  if (!are_margins(before, x) || !are_margins(after, x))
    fail("pad: before and after must be a number for each axis of {}, but were given [{}] and [{}]", x,
         fmt::join(before, ", "), fmt::join(after, ", "));
  given.require(is_float(x.dtype) || round_to(x.dtype, value) == value, "a value that the dtype holds");
  Shape shape = x.shape;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    shape.set(axis, before[at] + shape[axis] + after[at]);
  }
  return {{x.dtype, shape, x.layout}};
}

std::vector<TensorType> broadcast_types(const TypeQuery& given) {
  const std::vector<std::int64_t>& extents = given.attributes[attr::kShape];
  const Shape& x = given.in[0].shape;
  const bool fits = extents.size() <= static_cast<std::size_t>(Shape::kMaxRank) &&
                    std::ranges::all_of(extents, [](std::int64_t extent) { return extent > 0; }) &&
                    extents.size() >= static_cast<std::size_t>(x.rank()) &&
                    broadcast_shapes(x, Shape(extents)) == Shape(extents);
  if (!fits) fail("broadcast: {} cannot be [{}]", given.in[0], fmt::join(extents, ", "));
  return {{given.in[0].dtype, Shape(extents)}};
}

/// out[i] = x[source(i)] for the element kind of the tensors.
template <typename Source>
void gather(const OracleTensor& x, OracleTensor& out, Source source) {
  for (std::size_t i = 0; i < out.reals.size(); ++i) out.reals[i] = x.reals[source(i)];
  for (std::size_t i = 0; i < out.integers.size(); ++i) out.integers[i] = x.integers[source(i)];
}

void reshape(const Attributes& /*attributes*/, Operands in, std::span<OracleTensor> out) {
  const OracleTensor& x = *in[0];
  gather(x, out[0], [](std::size_t i) { return i; });
}

void transpose(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  const OracleTensor& x = *in[0];
  const std::vector<std::int64_t>& perm = attributes[attr::kPerm];
  const Shape x_strides = row_major_strides(x.type.shape);
  const Shape out_strides = row_major_strides(out[0].type.shape);
  gather(x, out[0], [&](std::size_t i) {
    std::int64_t rest = static_cast<std::int64_t>(i);
    std::int64_t index = 0;
    for (int axis = 0; axis < out_strides.rank(); ++axis) {
      index += rest / out_strides[axis] * x_strides[static_cast<int>(perm[static_cast<std::size_t>(axis)])];
      rest %= out_strides[axis];
    }
    return static_cast<std::size_t>(index);
  });
}

void concat(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  const auto axis = static_cast<int>(attributes[attr::kAxis]);
  std::int64_t start = 0;
  for (const OracleTensor* part : in) {
    const std::int64_t size = part->type.shape[axis];
    copy_steps(*part, 0, out[0], start, size, axis);
    start += size;
  }
}

void slice(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  const OracleTensor& x = *in[0];
  const auto axis = static_cast<int>(attributes[attr::kAxis]);
  copy_steps(x, attributes[attr::kStart], out[0], 0, attributes[attr::kExtent], axis);
}

/// out[i] = x at the coordinates of i. `inside` gives the coordinate for each axis, or says that there is none; then
/// out[i] = `value`.
template <typename Inside>
void take_places(const OracleTensor& x, OracleTensor& out, double value, Inside inside) {
  const Shape x_strides = row_major_strides(x.type.shape);
  const Shape out_strides = row_major_strides(out.type.shape);
  for (std::int64_t i = 0; i < out.type.shape.numel(); ++i) {
    std::int64_t rest = i, from = 0;
    bool has_place = true;
    for (int axis = 0; axis < out_strides.rank(); ++axis) {
      const auto [own, coordinate] = inside(axis, rest / out_strides[axis]);
      rest %= out_strides[axis];
      if (own < 0) continue;
      has_place = has_place && coordinate >= 0 && coordinate < x.type.shape[own];
      from += coordinate * x_strides[own];
    }
    const auto at = static_cast<std::size_t>(i), source = static_cast<std::size_t>(from);
    if (!out.reals.empty()) out.reals[at] = has_place ? x.reals[source] : round_to(out.type.dtype, value);
    if (!out.integers.empty()) out.integers[at] = has_place ? x.integers[source] : static_cast<std::int64_t>(value);
  }
}

void pad(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  const std::vector<std::int64_t>& before = attributes[attr::kBefore];
  take_places(*in[0], out[0], attributes[attr::kValue],
              [&](int axis, std::int64_t at) { return std::pair(axis, at - before[static_cast<std::size_t>(axis)]); });
}

void broadcast(const Attributes& /*attributes*/, Operands in, std::span<OracleTensor> out) {
  const Shape& shape = in[0]->type.shape;
  const int added = out[0].type.shape.rank() - shape.rank();
  take_places(*in[0], out[0], 0, [&](int axis, std::int64_t at) {
    const int own = axis - added;
    return std::pair(own, own >= 0 && shape[own] == 1 ? 0 : at);
  });
}

std::vector<ValueId> derive_reshape(Builder& builder, const Derivation& node) {
  return {with_shape(builder, node.gradient(), builder.shape(node.in[0]))};
}

std::vector<ValueId> derive_transpose(Builder& builder, const Derivation& node) {
  const Ints& perm = node.attributes[attr::kPerm];
  Ints inverse(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i)
    inverse[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
  return {builder.transpose(node.gradient(), std::move(inverse))};
}

std::vector<ValueId> derive_concat(Builder& builder, const Derivation& node) {
  const auto axis = static_cast<int>(node.attributes[attr::kAxis]);
  std::vector<ValueId> gradients(node.in.size(), kNoValue);
  std::int64_t start = 0;
  for (std::size_t i = 0; i < node.in.size(); ++i) {
    const std::int64_t size = builder.shape(node.in[i])[axis];
    if (node.wanted[i]) gradients[i] = builder.slice(node.gradient(), axis, start, size);
    start += size;
  }
  return gradients;
}

std::vector<ValueId> derive_slice(Builder& builder, const Derivation& node) {
  const Shape shape = builder.shape(node.in[0]);
  const auto axis = static_cast<std::size_t>(node.attributes[attr::kAxis]);
  Ints before(static_cast<std::size_t>(shape.rank()), 0), after = before;
  before[axis] = node.attributes[attr::kStart];
  after[axis] = shape[static_cast<int>(axis)] - node.attributes[attr::kExtent] - before[axis];
  return {builder.pad(node.gradient(), std::move(before), std::move(after))};
}

std::vector<ValueId> derive_pad(Builder& builder, const Derivation& node) {
  const Shape shape = builder.shape(node.in[0]);
  ValueId made = node.gradient();
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (builder.shape(made)[axis] != shape[axis])
      made = builder.slice(made, axis, node.attributes[attr::kBefore][static_cast<std::size_t>(axis)], shape[axis]);
  return {made};
}

std::vector<ValueId> derive_broadcast(Builder& builder, const Derivation& node) {
  return {sum_to(builder, node.gradient(), builder.graph().type(node.in[0]))};
}

Attributes reshape_under(const Attributes& attributes, std::int64_t extent) {
  std::vector<std::int64_t> shape = attributes[attr::kShape];
  shape.insert(shape.begin(), extent);
  return attributes.with(attr::kShape, std::move(shape));
}

Attributes transpose_under(const Attributes& attributes, std::int64_t /*extent*/) {
  std::vector<std::int64_t> perm = {0};
  for (const std::int64_t axis : attributes[attr::kPerm]) perm.push_back(axis + 1);
  return attributes.with(attr::kPerm, std::move(perm));
}

Attributes pad_under(const Attributes& attributes, std::int64_t /*extent*/) {
  Attributes under = attributes;
  for (const AttributeKey<Ints> side : {attr::kBefore, attr::kAfter}) {
    Ints margins = attributes[side];
    margins.insert(margins.begin(), 0);
    under = under.with(side, std::move(margins));
  }
  return under;
}

bool permutes_no_samples(const Attributes& attributes) { return attributes[attr::kPerm][0] == 0; }
bool pads_no_samples(const Attributes& attributes) {
  return attributes[attr::kBefore][0] == 0 && attributes[attr::kAfter][0] == 0;
}
bool never(const Attributes& /*attributes*/) { return false; }

const Shape kMovedShape{3, 5, 16}, kMovedImages{2, 3, 5, 7};

void reshape_cases(CaseList& list) { list.add("joins axes", {list.data(kMovedShape)}, {{attr::kShape, Ints{15, 16}}}); }
void transpose_cases(CaseList& list) {
  list.add("outer axes", {list.data(kMovedShape)}, {{attr::kPerm, Ints{1, 0, 2}}});
  list.add("all axes", {list.data(kMovedShape)}, {{attr::kPerm, Ints{2, 1, 0}}});
}
void concat_cases(CaseList& list) {
  const TensorType x = list.data(kMovedShape), images = list.data(kMovedImages, Layout::kChannelsLast);
  list.add("two parts", {x, x}, {{attr::kAxis, 1}});
  list.add("three parts of rows", {x, x, x}, {{attr::kAxis, 2}});
  list.add("channels last", {images, images}, {{attr::kAxis, 1}});
}
void slice_cases(CaseList& list) {
  const NamedAttributes part = {{attr::kAxis, 1}, {attr::kStart, 1}, {attr::kExtent, 2}};
  list.add("middle axis", {list.data(kMovedShape)}, part);
  list.add("channels last", {list.data(kMovedImages, Layout::kChannelsLast)}, part);
}
void pad_cases(CaseList& list) {
  list.add("three axes", {list.data(kMovedShape)}, {{attr::kBefore, Ints{0, 1, 2}}, {attr::kAfter, Ints{1, 0, 3}}});
  list.add("channels last", {list.data(kMovedImages, Layout::kChannelsLast)},
           {{attr::kBefore, Ints{0, 0, 1, 1}}, {attr::kAfter, Ints{0, 0, 1, 1}}, {attr::kValue, 2.0}});
}
void broadcast_cases(CaseList& list) {
  list.add("middle axis", {list.data({3, 1, 16})}, {{attr::kShape, Ints{3, 5, 16}}});
}

/// Between tokens and heads.
void large_transpose_cases(CaseList& list) {
  for (const DType dtype : {DType::kF32, DType::kBF16})
    list.add(fmt::format("transpose heads {}", name_of(dtype)),
             {{dtype, {1, large_rows(size_of(dtype)), kLargeHeads, kLargeWidth / kLargeHeads}}},
             {{attr::kPerm, Ints{0, 2, 1, 3}}});
}
void large_concat_cases(CaseList& list) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    TensorType quarter = large_tokens(dtype);
    quarter.shape.set(1, quarter.shape[1] / 4);
    list.add(fmt::format("concat {}", name_of(dtype)), {large_tokens(dtype), quarter}, {{attr::kAxis, 1}});
  }
}

constexpr std::array kMovements = {
    // Its attribute names every extent, including that of the samples.
    OpDefinition{.op = Op::kReshape,
                 .kind = OpKind::kView,
                 .infer = reshape_types,
                 .evaluate = reshape,
                 .derive = derive_reshape,
                 .samples = Samples::kBatched,
                 .keeps_samples = never,
                 .under_axis = reshape_under,
                 .cases = reshape_cases,
                 .takes_integers = true},
    OpDefinition{.op = Op::kTranspose,
                 .kind = OpKind::kView,
                 .infer = transpose_types,
                 .evaluate = transpose,
                 .derive = derive_transpose,
                 .samples = Samples::kBatched,
                 .keeps_samples = permutes_no_samples,
                 .under_axis = transpose_under,
                 .cases = transpose_cases,
                 .benchmarks = large_transpose_cases,
                 .takes_integers = true},
    OpDefinition{.op = Op::kConcat,
                 .kind = OpKind::kCopy,
                 .infer = concat_types,
                 .evaluate = concat,
                 .derive = derive_concat,
                 .samples = Samples::kEvery,
                 .keeps_samples = is_along_inner_axis,
                 .under_axis = next_axis,
                 .any_layout = true,
                 .cases = concat_cases,
                 .benchmarks = large_concat_cases,
                 .takes_integers = true},
    OpDefinition{.op = Op::kSlice,
                 .kind = OpKind::kView,
                 .infer = slice_types,
                 .evaluate = slice,
                 .derive = derive_slice,
                 .samples = Samples::kBatched,
                 .keeps_samples = is_along_inner_axis,
                 .under_axis = next_axis,
                 .any_layout = true,
                 .reads_part = true,
                 .cases = slice_cases,
                 .takes_integers = true},
    OpDefinition{.op = Op::kPad,
                 .kind = OpKind::kCopy,
                 .infer = pad_types,
                 .evaluate = pad,
                 .derive = derive_pad,
                 .samples = Samples::kBatched,
                 .keeps_samples = pads_no_samples,
                 .under_axis = pad_under,
                 .any_layout = true,
                 .cases = pad_cases,
                 .takes_integers = true},
    OpDefinition{.op = Op::kBroadcast,
                 .kind = OpKind::kCopy,
                 .infer = broadcast_types,
                 .evaluate = broadcast,
                 .derive = derive_broadcast,
                 .cases = broadcast_cases,
                 .takes_integers = true},
};

}  // namespace

std::span<const OpDefinition> movements() { return kMovements; }

}  // namespace headroom::ops
