#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "base/error.hpp"
#include "ir/ops/families.hpp"
#include "ir/test_cases/op_cases.hpp"

// Collectives. `evaluate` gets the operands of all ranks of the group, in its order.

namespace headroom::ops {
namespace {

constexpr std::string_view kNoDerivative = "joins several ranks, and training runs on one";

/// Requires a group of ranks with this one among them.
void require_group(const TypeQuery& given) {
  const Ints& group = given.attributes[attr::kGroup];
  const std::int64_t rank = given.attributes[attr::kRank];
  const bool is_group = !group.empty() && std::ranges::min(group) >= 0 &&
                        std::set<std::int64_t>(group.begin(), group.end()).size() == group.size();
  given.require(is_group && rank >= 0 && rank < std::ssize(group), "a group of different ranks, and a rank in it");
}

/// Requires parts of that axis, one for each rank of the group.
void require_shares(const TypeQuery& given, const Ints& shares, std::int64_t axis) {
  given.require(axis >= 0 && axis < given.in[0].shape.rank() &&
                    shares.size() == given.attributes[attr::kGroup].size() && std::ranges::min(shares) > 0,
                "an axis of x with a share of at least 1 for each rank of the group");
}

std::int64_t sum_of(const Ints& shares) { return std::accumulate(shares.begin(), shares.end(), std::int64_t{0}); }
std::size_t own_member(const Attributes& attributes) { return static_cast<std::size_t>(attributes[attr::kRank]); }
std::int64_t own_share(const TypeQuery& given) { return given.attributes[attr::kShares][own_member(given.attributes)]; }
std::int64_t start_of(const Ints& shares, std::size_t member) {
  return std::accumulate(shares.begin(), shares.begin() + static_cast<std::ptrdiff_t>(member), std::int64_t{0});
}
/// The member of the group from which a shift comes.
std::size_t previous_member(const Attributes& attributes) {
  const std::size_t members = attributes[attr::kGroup].size();
  return (own_member(attributes) + members - 1) % members;
}

/// x with another extent along one axis.
TensorType with_extent(TensorType x, std::int64_t axis, std::int64_t extent) {
  x.shape.set(static_cast<int>(axis), extent);
  x.layout = Layout::kRowMajor;
  return x;
}

std::vector<TensorType> all_gather_types(const TypeQuery& given) {
  const std::int64_t axis = given.attributes[attr::kAxis];
  const Ints& shares = given.attributes[attr::kShares];
  require_group(given);
  require_shares(given, shares, axis);
  given.require(given.in[0].shape[static_cast<int>(axis)] == own_share(given), "this rank's share along the axis");
  return {with_extent(given.in[0], axis, sum_of(shares))};
}

std::vector<TensorType> reduce_scatter_types(const TypeQuery& given) {
  const std::int64_t axis = given.attributes[attr::kAxis];
  const Ints& shares = given.attributes[attr::kShares];
  require_group(given);
  require_shares(given, shares, axis);
  given.require(is_float(given.in[0].dtype) && given.in[0].shape[static_cast<int>(axis)] == sum_of(shares),
                "floats with the shares of all ranks along the axis");
  return {with_extent(given.in[0], axis, own_share(given))};
}

std::vector<TensorType> all_reduce_types(const TypeQuery& given) {
  require_group(given);
  given.require(is_float(given.in[0].dtype), "floats");
  return {given.in[0]};
}

std::vector<TensorType> all_to_all_types(const TypeQuery& given) {
  const std::int64_t axis = given.attributes[attr::kAxis], split_axis = given.attributes[attr::kSplitAxis];
  const Ints &shares = given.attributes[attr::kShares], &split = given.attributes[attr::kSplit];
  require_group(given);
  require_shares(given, shares, axis);
  require_shares(given, split, split_axis);
  const Shape& x = given.in[0].shape;
  given.require(axis != split_axis && x[static_cast<int>(axis)] == own_share(given) &&
                    x[static_cast<int>(split_axis)] == sum_of(split),
                "this rank's share along the axis, and the parts for all ranks along another one");
  return {with_extent(with_extent(given.in[0], axis, sum_of(shares)), split_axis, split[own_member(given.attributes)])};
}

std::vector<TensorType> shift_types(const TypeQuery& given) {
  const std::int64_t axis = given.attributes[attr::kAxis];
  const Ints& shares = given.attributes[attr::kShares];
  require_group(given);
  require_shares(given, shares, axis);
  given.require(given.in[0].shape[static_cast<int>(axis)] == own_share(given), "this rank's share along the axis");
  return {with_extent(given.in[0], axis, shares[previous_member(given.attributes)])};
}

void all_gather(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  const auto axis = static_cast<int>(attributes[attr::kAxis]);
  for (std::size_t member = 0; member < in.size(); ++member) {
    const std::int64_t share = attributes[attr::kShares][member];
    copy_steps(*in[member], 0, out[0], start_of(attributes[attr::kShares], member), share, axis);
  }
}

/// The larger number; NaN if one is NaN.
double larger(double a, double b) { return std::isnan(a) || a >= b ? a : b; }

/// Adds x to `sum`, or keeps the larger elements.
void accumulate(const std::vector<double>& x, std::vector<double>& sum, bool largest) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = largest ? larger(sum[i], x[i]) : sum[i] + x[i];
}

void all_reduce(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  out[0].reals = in[0]->reals;
  for (const OracleTensor* operand : in.subspan(1))
    accumulate(operand->reals, out[0].reals, attributes[attr::kLargest]);
}

void reduce_scatter(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  const Ints& shares = attributes[attr::kShares];
  const std::size_t own = own_member(attributes);
  const auto take = [&](const OracleTensor& x, OracleTensor& part) {
    copy_steps(x, start_of(shares, own), part, 0, shares[own], static_cast<int>(attributes[attr::kAxis]));
  };
  take(*in[0], out[0]);
  OracleTensor part = out[0];
  for (const OracleTensor* operand : in.subspan(1)) {
    take(*operand, part);
    accumulate(part.reals, out[0].reals, attributes[attr::kLargest]);
  }
}

void all_to_all(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  const Ints &shares = attributes[attr::kShares], &split = attributes[attr::kSplit];
  const std::int64_t axis = attributes[attr::kAxis], split_axis = attributes[attr::kSplitAxis];
  const std::size_t own = own_member(attributes);
  for (std::size_t member = 0; member < in.size(); ++member) {
    OracleTensor part{with_extent(in[member]->type, split_axis, split[own]), {}, {}};
    const auto elements = static_cast<std::size_t>(part.type.shape.numel());
    is_float(part.type.dtype) ? part.reals.resize(elements) : part.integers.resize(elements);
    copy_steps(*in[member], start_of(split, own), part, 0, split[own], static_cast<int>(split_axis));
    copy_steps(part, 0, out[0], start_of(shares, member), shares[member], static_cast<int>(axis));
  }
}

void shift(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  const OracleTensor& previous = *in[previous_member(attributes)];
  out[0].reals = previous.reals;
  out[0].integers = previous.integers;
}

/// A rank alone, with which kernels are compared everywhere; tests of ranks have more.
NamedAttributes alone(NamedAttributes rest = {}) {
  rest.emplace_back(attr::kGroup, Ints{0});
  rest.emplace_back(attr::kRank, 0);
  return rest;
}
NamedAttributes alone_along(std::int64_t axis, std::int64_t extent) {
  return alone({{attr::kAxis, axis}, {attr::kShares, Ints{extent}}});
}

void shared_axis_cases(CaseList& list) { list.add("a rank alone", {list.data({2, 3, 5})}, alone_along(1, 3)); }
void all_reduce_cases(CaseList& list) { list.add("a rank alone", {list.data({2, 3, 5})}, alone()); }
void all_to_all_cases(CaseList& list) {
  NamedAttributes attributes = alone_along(2, 5);
  attributes.emplace_back(attr::kSplitAxis, 1);
  attributes.emplace_back(attr::kSplit, Ints{3});
  list.add("a rank alone", {list.data({2, 3, 5, 4})}, std::move(attributes));
}

constexpr std::array kCollectives = {
    OpDefinition{.op = Op::kAllGather,
                 .infer = all_gather_types,
                 .evaluate = all_gather,
                 .no_derivative = kNoDerivative,
                 .is_collective = true,
                 .cases = shared_axis_cases},
    OpDefinition{.op = Op::kReduceScatter,
                 .infer = reduce_scatter_types,
                 .evaluate = reduce_scatter,
                 .no_derivative = kNoDerivative,
                 .flops = for_each_input<1>,
                 .is_collective = true,
                 .stays_f32 = true,
                 .cases = shared_axis_cases},
    OpDefinition{.op = Op::kAllReduce,
                 .infer = all_reduce_types,
                 .evaluate = all_reduce,
                 .no_derivative = kNoDerivative,
                 .flops = for_each_input<1>,
                 .is_collective = true,
                 .stays_f32 = true,
                 .cases = all_reduce_cases},
    OpDefinition{.op = Op::kAllToAll,
                 .infer = all_to_all_types,
                 .evaluate = all_to_all,
                 .no_derivative = kNoDerivative,
                 .is_collective = true,
                 .cases = all_to_all_cases},
    OpDefinition{.op = Op::kShift,
                 .infer = shift_types,
                 .evaluate = shift,
                 .no_derivative = kNoDerivative,
                 .is_collective = true,
                 .cases = shared_axis_cases},
};

}  // namespace

std::span<const OpDefinition> collectives() { return kCollectives; }

}  // namespace headroom::ops
