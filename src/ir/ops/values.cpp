#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.hpp"
#include "base/tensors/random.hpp"
#include "ir/ops/families.hpp"
#include "ir/test_cases/op_cases.hpp"

// Ops without tensor operands: constants, and random numbers.

namespace headroom::ops {
namespace {

/// The shape `first` followed by the attribute "shape"; throws if that is invalid.
Shape shape_behind(const TypeQuery& given, std::initializer_list<std::int64_t> first) {
  const std::vector<std::int64_t>& extents = given.attributes[attr::kShape];
  if (!std::ranges::all_of(extents, [](std::int64_t extent) { return extent > 0; }) ||
      first.size() + extents.size() > static_cast<std::size_t>(Shape::kMaxRank))
    fail("{}: expected positive extents, of at most {} axes, but was given [{}]", name_of(given.op), Shape::kMaxRank,
         fmt::join(extents, ", "));
  Shape shape;
  for (const std::int64_t extent : first) shape.push_back(extent);
  for (const std::int64_t extent : extents) shape.push_back(extent);
  return shape;
}

std::vector<TensorType> constant_types(const TypeQuery& given) {
  const std::vector<double>& values = given.attributes[attr::kValues];
  const TensorType type{given.attributes[attr::kDType], shape_behind(given, {})};
  if (values.size() != 1 && values.size() != static_cast<std::size_t>(type.shape.numel()))
    fail("constant: expected one value, or one for each element of {}, but was given {}", type, values.size());
  for (const double value : values)
    if (!is_float(type.dtype) && (std::trunc(value) != value || round_to(type.dtype, value) != value))
      fail("constant: expected values that {} holds, but was given {}", type.dtype, value);
  return {type};
}

void constant(const Attributes& attributes, Operands /*in*/, std::span<OracleTensor> out) {
  const std::vector<double>& values = attributes[attr::kValues];
  const auto value = [&](std::size_t i) { return values[values.size() == 1 ? 0 : i]; };
  const DType dtype = out[0].type.dtype;
  for (std::size_t i = 0; i < out[0].reals.size(); ++i) out[0].reals[i] = round_to(dtype, value(i));
  for (std::size_t i = 0; i < out[0].integers.size(); ++i) out[0].integers[i] = static_cast<std::int64_t>(value(i));
}

std::vector<TensorType> random_types(const TypeQuery& given) {
  const TensorType& key = given.in[0];
  given.require(is_index(key) && key.shape.rank() == 1 && is_index(given.in[1]) && given.in[1].shape == Shape{},
                "key[b] and a scalar offset, each i32 or i64");
  return {{DType::kF32, shape_behind(given, {key.shape[0]})}};
}

/// In f32, because every kernel computes exactly these bits.
void random(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  const bool is_normal = attributes[attr::kDistribution] == Distribution::kNormal;
  const std::size_t images = extent(*in[0], 0);
  const std::size_t elements = out[0].reals.size() / images;
  const auto offset = static_cast<std::uint64_t>(in[1]->integers[0]);
  for (std::size_t image = 0; image < images; ++image) {
    const auto key = static_cast<std::uint64_t>(in[0]->integers[image]);
    std::vector<float> numbers(elements);
    is_normal ? fill_normal(numbers, key, offset) : fill_uniform(numbers, key, offset);
    std::ranges::copy(numbers, out[0].reals.begin() + static_cast<std::ptrdiff_t>(image * elements));
  }
}

constexpr double kFlopsOfARandomNumber = 60;

void constant_cases(CaseList& list) {
  const NamedAttribute dtype{attr::kDType, list.types().data};
  list.add("one value for all", {}, {{attr::kValues, std::vector<double>{3}}, {attr::kShape, Ints{5, 7}}, dtype});
  list.add("three values", {}, {{attr::kValues, std::vector<double>{1, 2, 3}}, {attr::kShape, Ints{3}}, dtype});
}

/// It makes f32.
void random_cases(CaseList& list) {
  if (list.types() != CaseTypes{}) return;
  for (const Distribution distribution : {Distribution::kNormal, Distribution::kUniform})
    list.add(std::string(name_of(distribution)), {{DType::kI64, {2}}, {DType::kI32, {}}},
             {{attr::kShape, Ints{3, 5, 7}}, {attr::kDistribution, distribution}});
}

constexpr std::array kValues = {
    OpDefinition{.op = Op::kConstant,
                 .kind = OpKind::kCopy,
                 .infer = constant_types,
                 .evaluate = constant,
                 .no_derivative = "has no operands",
                 .cases = constant_cases,
                 .takes_integers = true},
    OpDefinition{.op = Op::kRandom,
                 .infer = random_types,
                 .evaluate = random,
                 .no_derivative = "draws its numbers by integers",
                 .flops = kFlopsOfARandomNumber,
                 .samples = Samples::kBatched,
                 .stays_f32 = true,
                 .cases = random_cases},
};

}  // namespace

std::span<const OpDefinition> values() { return kValues; }

}  // namespace headroom::ops
