#include "testing/highway_check.hpp"

namespace headroom {
namespace {

constexpr std::array kIds = {DType::kI32, DType::kI64};

TEST(Gather, MatchesTheOracle) {
  for (const DType dtype : {DType::kU8, DType::kBF16, DType::kF32, DType::kI64})
    for (const DType ids : kIds) {
      for (const Shape& shape : {Shape{}, Shape{1}, Shape{5}, Shape{3, 40}})
        for (const Shape& table : {Shape{7}, Shape{1, 3}, Shape{9, 17}, Shape{6, 2, 33}, Shape{4, 4200}})
          expect_matches_oracle("highway.gather", make_spec(Op::kGather, {{dtype, table}, {ids, shape}}));
    }
}

TEST(ScatterAdd, MatchesTheOracle) {
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const DType ids : kIds)
      for (const std::int64_t count : {1, 100})
        for (const Shape& row : {Shape{}, Shape{17}, Shape{3, 40}, Shape{700}})
          for (const std::int64_t rows : {1, 7}) {
            Shape table{rows}, updates{count};
            for (const std::int64_t extent : row.dims()) table.push_back(extent), updates.push_back(extent);
            expect_matches_oracle("highway.scatter_add",
                                  make_spec(Op::kScatterAdd, {{dtype, table}, {ids, {count}}, {dtype, updates}}),
                                  dtype == DType::kF32 ? Tolerance{.relative_l2 = 1e-5} : default_tolerance(dtype));
          }
}

/// The kernel on tables in f32.
std::vector<float> run(std::string_view kernel, const OpSpec& spec, const std::vector<DevicePointer>& inputs) {
  std::vector<Operand> in;
  for (const TensorType& type : spec.inputs) in.push_back(dense_operand(type));
  const Operand out = dense_operand(spec.outputs[0]);
  const auto prepared = kernel_named(kernel).prepare(spec, in, {&out, 1}, Target{});
  std::vector<std::int64_t> scratch(prepared->scratch_bytes() / sizeof(std::int64_t) + 1);
  std::vector<float> y(static_cast<std::size_t>(spec.outputs[0].shape.numel()));
  const DevicePointer to = host_place(y.data());
  const auto stream = make_backend(DeviceKind::kCpu, 1)->make_stream();
  prepared->launch({*stream, inputs, {&to, 1}, host_place(scratch.data())});
  return y;
}

TEST(Gather, AnIdOutsideTakesTheNearestRow) {
  const std::vector<float> table = {1, 2, 3};
  const std::vector<std::int64_t> ids = {-1, 3, std::int64_t{1} << 40, 1};
  const OpSpec spec = make_spec(Op::kGather, {{DType::kF32, {3}}, {DType::kI64, {4}}});
  EXPECT_EQ(run("highway.gather", spec, {host_place(table.data()), host_place(ids.data())}),
            (std::vector<float>{1, 3, 3, 2}));
}

TEST(ScatterAdd, AnIdOutsideTakesTheNearestRow) {
  const std::vector<float> x = {1, 2, 3}, updates = {10, 20, 40};
  const std::vector<std::int32_t> ids = {-1, 3, 1};
  const OpSpec spec = make_spec(Op::kScatterAdd, {{DType::kF32, {3}}, {DType::kI32, {3}}, {DType::kF32, {3}}});
  EXPECT_EQ(
      run("highway.scatter_add", spec, {host_place(x.data()), host_place(ids.data()), host_place(updates.data())}),
      (std::vector<float>{11, 42, 23}));
}

}  // namespace
}  // namespace headroom
