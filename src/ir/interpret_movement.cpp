#include <algorithm>
#include <cstdint>

#include "base/error.hpp"
#include "ir/interpret_ops.hpp"

namespace headroom::oracle {
namespace {

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

}  // namespace

void reshape(const OracleTensor& x, OracleTensor& out) {
  gather(x, out, [](std::size_t i) { return i; });
}

void transpose(const Attributes& attributes, const OracleTensor& x, OracleTensor& out) {
  const std::vector<std::int64_t>& perm = attributes.get_ints("perm");
  const Shape x_strides = row_major_strides(x.type.shape);
  const Shape out_strides = row_major_strides(out.type.shape);
  gather(x, out, [&](std::size_t i) {
    std::int64_t rest = static_cast<std::int64_t>(i);
    std::int64_t index = 0;
    for (int axis = 0; axis < out_strides.rank(); ++axis) {
      index += rest / out_strides[axis] * x_strides[static_cast<int>(perm[static_cast<std::size_t>(axis)])];
      rest %= out_strides[axis];
    }
    return static_cast<std::size_t>(index);
  });
}

void concat(const Attributes& attributes, Operands in, OracleTensor& out) {
  const auto axis = static_cast<int>(attributes.get_int("axis"));
  std::int64_t start = 0;
  for (const OracleTensor* part : in) {
    const std::int64_t size = part->type.shape[axis];
    copy_steps(*part, 0, out, start, size, axis);
    start += size;
  }
}

void slice(const Attributes& attributes, const OracleTensor& x, OracleTensor& out) {
  const auto axis = static_cast<int>(attributes.get_int("axis"));
  copy_steps(x, attributes.get_int("start"), out, 0, attributes.get_int("size"), axis);
}

void row(Operands in, OracleTensor& out) {
  const OracleTensor& table = *in[0];
  const std::int64_t index = in[1]->integers[0];
  const std::int64_t rows = table.type.shape[0];
  if (index < 0 || index >= rows) fail("row: the index must be in 0..{}, but is {}", rows - 1, index);
  const auto first = static_cast<std::size_t>(index * out.type.shape.numel());
  gather(table, out, [first](std::size_t i) { return first + i; });
}

}  // namespace headroom::oracle
