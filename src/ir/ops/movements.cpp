#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "base/error.hpp"
#include "ir/ops/families.hpp"

// Shapes, and what moves data.

namespace headroom::ops {
namespace {

std::vector<TensorType> reshape_types(const TypeQuery& given) {
  const std::vector<std::int64_t>& extents = given.attributes.get_ints("shape");
  const bool positive = std::ranges::all_of(extents, [](std::int64_t extent) { return extent > 0; });
  if (!positive || extents.size() > static_cast<std::size_t>(Shape::kMaxRank) ||
      Shape(extents).numel() != given.in[0].shape.numel()) {
    fail("reshape: expected at most {} positive extents with {} elements for {}, but was given [{}]", Shape::kMaxRank,
         given.in[0].shape.numel(), given.in[0], fmt::join(extents, ", "));
  }
  return {{given.in[0].dtype, Shape(extents)}};
}

std::vector<TensorType> transpose_types(const TypeQuery& given) {
  const std::vector<std::int64_t>& perm = given.attributes.get_ints("perm");
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
  return {{given.in[0].dtype, shape}};
}

std::vector<TensorType> slice_types(const TypeQuery& given) {
  const int axis = axis_of(given);
  const std::int64_t start = given.attributes.get_int("start");
  const std::int64_t size = given.attributes.get_int("size");
  const std::int64_t extent = given.in[0].shape[axis];
  if (start < 0 || start >= extent || size < 1 || size > extent - start) {
    fail("slice: [{}, {} + {}) is not a stretch of axis {} of {}", start, start, size, axis, given.in[0]);
  }
  Shape shape = given.in[0].shape;
  shape.set(axis, size);
  return {{given.in[0].dtype, shape}};
}

std::vector<TensorType> row_types(const TypeQuery& given) {
  given.require(given.in[0].shape.rank() >= 1 && given.in[1] == TensorType{DType::kI32, Shape{}},
                "table[n, ...] and an i32 scalar");
  return {{given.in[0].dtype, Shape(given.in[0].shape.dims().subspan(1))}};
}

/// out[i] = x[source(i)] for whichever element kind the tensors hold.
template <typename Source>
void gather(const OracleTensor& x, OracleTensor& out, Source source) {
  for (std::size_t i = 0; i < out.reals.size(); ++i) out.reals[i] = x.reals[source(i)];
  for (std::size_t i = 0; i < out.integers.size(); ++i) out.integers[i] = x.integers[source(i)];
}

/// Elements in one step along `axis`: the product of the extents after it.
std::size_t inner_size(const Shape& shape, int axis) {
  return static_cast<std::size_t>(Shape(shape.dims().subspan(static_cast<std::size_t>(axis) + 1)).numel());
}

/// Copies `size` steps of `axis` from step `from` of x to step `to` of out, for every outer index.
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

void reshape(const Attributes& /*attributes*/, Operands in, std::span<OracleTensor> out) {
  const OracleTensor& x = *in[0];
  gather(x, out[0], [](std::size_t i) { return i; });
}

void transpose(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  const OracleTensor& x = *in[0];
  const std::vector<std::int64_t>& perm = attributes.get_ints("perm");
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
  const auto axis = static_cast<int>(attributes.get_int("axis"));
  std::int64_t start = 0;
  for (const OracleTensor* part : in) {
    const std::int64_t size = part->type.shape[axis];
    copy_steps(*part, 0, out[0], start, size, axis);
    start += size;
  }
}

void slice(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  const OracleTensor& x = *in[0];
  const auto axis = static_cast<int>(attributes.get_int("axis"));
  copy_steps(x, attributes.get_int("start"), out[0], 0, attributes.get_int("size"), axis);
}

void row(const Attributes& /*attributes*/, Operands in, std::span<OracleTensor> out) {
  const OracleTensor& table = *in[0];
  const std::int64_t index = in[1]->integers[0];
  const std::int64_t rows = table.type.shape[0];
  if (index < 0 || index >= rows) fail("row: the index must be in 0..{}, but is {}", rows - 1, index);
  const auto first = static_cast<std::size_t>(index * out[0].type.shape.numel());
  gather(table, out[0], [first](std::size_t i) { return first + i; });
}

Attributes reshape_under(const Attributes& attributes, std::int64_t extent) {
  std::vector<std::int64_t> shape = attributes.get_ints("shape");
  shape.insert(shape.begin(), extent);
  return attributes.with("shape", std::move(shape));
}

Attributes transpose_under(const Attributes& attributes, std::int64_t /*extent*/) {
  std::vector<std::int64_t> perm = {0};
  for (const std::int64_t axis : attributes.get_ints("perm")) perm.push_back(axis + 1);
  return attributes.with("perm", std::move(perm));
}

bool keeps_first_axis(const Attributes& attributes) { return attributes.get_ints("perm")[0] == 0; }
bool never(const Attributes& /*attributes*/) { return false; }

constexpr std::array kMovements = {
    // Its attribute names every extent, those of the samples too.
    OpDefinition{.op = Op::kReshape,
                 .kind = OpKind::kView,
                 .infer = reshape_types,
                 .evaluate = reshape,
                 .samples = Samples::kFirst,
                 .keeps_samples = never,
                 .under_axis = reshape_under},
    OpDefinition{.op = Op::kTranspose,
                 .kind = OpKind::kView,
                 .infer = transpose_types,
                 .evaluate = transpose,
                 .samples = Samples::kFirst,
                 .keeps_samples = keeps_first_axis,
                 .under_axis = transpose_under},
    OpDefinition{.op = Op::kConcat,
                 .kind = OpKind::kCopy,
                 .infer = concat_types,
                 .evaluate = concat,
                 .samples = Samples::kEvery,
                 .keeps_samples = is_along_inner_axis,
                 .under_axis = next_axis,
                 .any_layout = true},
    OpDefinition{.op = Op::kSlice,
                 .kind = OpKind::kView,
                 .infer = slice_types,
                 .evaluate = slice,
                 .samples = Samples::kFirst,
                 .keeps_samples = is_along_inner_axis,
                 .under_axis = next_axis,
                 .any_layout = true,
                 .reads_part = true},
    OpDefinition{.op = Op::kRow, .kind = OpKind::kCopy, .infer = row_types, .evaluate = row, .reads_part = true},
};

}  // namespace

std::span<const OpDefinition> movements() { return kMovements; }

}  // namespace headroom::ops
