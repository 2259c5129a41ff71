#include "testing/highway_check.hpp"

namespace headroom {
namespace {

TEST(Reductions, MatchTheOracle) {
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const Op op : {Op::kSum, Op::kMean, Op::kAmax, Op::kAmin})
      for (const OpCase& one : small_cases(op, {dtype, dtype}))
        expect_matches_oracle(fmt::format("highway.{}", name_of(op)), one.spec, one.tolerance);
}

TEST(Largest, MatchTheOracle) {
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const Shape& shape : {Shape{1}, Shape{7}, Shape{3, 40}, Shape{2, 5, 17}, Shape{2, 500}}) {
      for (int axis = 0; axis < shape.rank(); ++axis)
        expect_matches_oracle("plain.argmax", make_spec(Op::kArgmax, {{dtype, shape}}, {{"axis", std::int64_t{axis}}}));
      for (const std::int64_t k : {std::int64_t{1}, (shape[-1] + 1) / 2, shape[-1]})
        expect_matches_oracle("plain.topk", make_spec(Op::kTopk, {{dtype, shape}}, {{"k", k}}));
    }
}

/// The results of a kernel on exactly these rows.
struct Found {
  std::vector<float> values;
  std::vector<std::int32_t> places;
};
Found topk(std::int64_t k, std::vector<float> x) {
  const OpSpec spec = make_spec(Op::kTopk, {{DType::kF32, {static_cast<std::int64_t>(x.size())}}}, {{"k", k}});
  const Operand in = dense_operand(spec.inputs[0]);
  const std::vector<Operand> out = {dense_operand(spec.outputs[0]), dense_operand(spec.outputs[1])};
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  const auto stream = backend->make_stream();
  Found found{std::vector<float>(static_cast<std::size_t>(k)), std::vector<std::int32_t>(static_cast<std::size_t>(k))};
  const DevicePointer from = host_place(x.data());
  const std::vector<DevicePointer> to = {host_place(found.values.data()), host_place(found.places.data())};
  const auto prepared = kernel_named("plain.topk").prepare(spec, {&in, 1}, out, Target{});
  const Buffer scratch = backend->allocate(prepared->scratch_bytes(), MemoryCategory::kWorkspace);
  prepared->launch({*stream, {&from, 1}, to, scratch.at()});
  return found;
}

TEST(Largest, OfEqualOnesTheFirstComesFirstAndNanBeforeAll) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Found found = topk(5, {1, 5, nan, 5, 7, nan});
  EXPECT_EQ(found.places, (std::vector<std::int32_t>{2, 5, 4, 1, 3}));
  EXPECT_TRUE(std::isnan(found.values[0]) && std::isnan(found.values[1]));
  EXPECT_EQ(found.values[2], 7);
}

TEST(Reductions, NanWins) {
  constexpr std::int64_t kRows = 3, kWidth = 37;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  const auto stream = backend->make_stream();
  for (const Op op : {Op::kAmax, Op::kAmin})
    for (const std::int64_t axis : {0, 1}) {
      const OpSpec spec = make_spec(op, {{DType::kF32, {kRows, kWidth}}}, {{"axes", std::vector<std::int64_t>{axis}}});
      const Operand in = dense_operand(spec.inputs[0]), out = dense_operand(spec.outputs[0]);
      for (std::size_t at = 0; at < kRows * kWidth; ++at) {
        std::vector<float> x(kRows * kWidth, 1.0F), y(static_cast<std::size_t>(out.type.shape.numel()));
        x[at] = nan;
        const DevicePointer from = host_place(x.data());
        const DevicePointer to = host_place(y.data());
        for_each_highway_target([&] {
          kernel_named(fmt::format("highway.{}", name_of(op)))
              .prepare(spec, {&in, 1}, {&out, 1}, Target{})
              ->launch({*stream, {&from, 1}, {&to, 1}, {}});
          const std::size_t result = axis == 0 ? at % kWidth : at / kWidth;
          for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i == result) << at;
        });
      }
    }
}

}  // namespace
}  // namespace headroom
