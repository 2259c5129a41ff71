#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "testing/highway_check.hpp"

namespace headroom {
namespace {

OpSpec merge_spec(DType dtype, const Shape& x, std::int64_t axis, bool logsumexp) {
  Shape rows;
  for (int k = 0; k + 1 < x.rank(); ++k) rows.push_back(x[k]);
  return make_spec(Op::kMergeAttention, {{dtype, x}, {DType::kF32, rows}},
                   {{attr::kAxis, axis}, {attr::kLogsumexp, logsumexp}});
}

class MergeAttention : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Stored, MergeAttention, testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& param) { return std::string(name_of(param.param)); });

TEST_P(MergeAttention, MatchesTheOracle) {
  for (const Shape& x : {Shape{1, 1}, Shape{3, 7}, Shape{2, 3, 5, 64}, Shape{5, 2, 3, 9, 40}, Shape{2, 3, 4, 2, 5, 17},
                         Shape{7, 2, 200, 128}})
    for (std::int64_t axis = 0; axis + 1 < x.rank(); ++axis)
      for (const bool logsumexp : {false, true})
        expect_matches_oracle("highway.merge_attention", merge_spec(GetParam(), x, axis, logsumexp),
                              {.relative_l2 = GetParam() == DType::kF32 ? 1e-6 : 4e-3});
}

/// The outputs of a kernel that takes f32, dense.
std::vector<std::vector<float>> outputs_of(std::string_view kernel, const OpSpec& spec,
                                           const std::vector<const float*>& inputs) {
  std::vector<Operand> in, out;
  for (const TensorType& type : spec.inputs) in.push_back(dense_operand(type));
  for (const TensorType& type : spec.outputs) out.push_back(dense_operand(type));
  const auto prepared = kernel_named(kernel).prepare(spec, in, out, Target{});
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  const auto stream = backend->make_stream();
  const Buffer scratch = backend->allocate(prepared->scratch_bytes(), MemoryCategory::kWorkspace);
  std::vector<std::vector<float>> results;
  std::vector<DevicePointer> from, to;
  for (const TensorType& type : spec.outputs) results.emplace_back(static_cast<std::size_t>(type.shape.numel()));
  for (const float* input : inputs) from.push_back(host_place(input));
  for (const std::vector<float>& result : results) to.push_back(host_place(result.data()));
  prepared->launch({*stream, from, to, scratch.at()});
  return results;
}

TEST(MergeAttentionValues, APartThatSawNothingContributesNothing) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const float nan = std::nanf("");
  const std::vector<float> x = {nan, 5, 1, nan, 7, nan, 3, nan}, logs = {kNone, 1, 400, kNone, 2, kNone, 400, kNone};
  for_each_highway_target([&] {
    const auto results =
        outputs_of("highway.merge_attention", merge_spec(DType::kF32, {2, 4, 1}, 0, true), {x.data(), logs.data()});
    EXPECT_EQ(results[0], (std::vector<float>{7, 5, 2, 0}));
    EXPECT_EQ(results[1], (std::vector<float>{2, 1, 400 + std::log(2.0F), kNone}));
  });
}

/// Keys [begin, begin + count) of x[heads, keys, dim].
std::vector<float> keys_of(const std::vector<float>& x, std::int64_t heads, std::int64_t dim, std::int64_t begin,
                           std::int64_t count) {
  const std::int64_t keys = static_cast<std::int64_t>(x.size()) / heads / dim;
  std::vector<float> part;
  for (std::int64_t head = 0; head < heads; ++head)
    part.insert(part.end(), x.begin() + (head * keys + begin) * dim, x.begin() + (head * keys + begin + count) * dim);
  return part;
}

TEST(MergeAttentionOfParts, IsAttentionOverAllKeys) {
  std::mt19937 random(1);
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
  const auto normals = [&](std::int64_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = normal(random);
    return values;
  };
  constexpr std::int64_t kHeads = 3, kKeyDim = 20, kValueDim = 24;
  for (int trial = 0; trial < 60; ++trial) {
    const std::int64_t queries = 1 + below(70), keys = 1 + below(200);
    const bool causal = trial % 3 != 0;
    const std::int64_t diagonal = causal ? below(queries + keys) - queries : 0;
    const std::vector<float> q = normals(kHeads * queries * kKeyDim), k = normals(kHeads * keys * kKeyDim),
                             v = normals(kHeads * keys * kValueDim);
    const auto attend = [&](std::int64_t begin, std::int64_t count) {
      const OpSpec spec = make_spec(Op::kAttention,
                                    {{DType::kF32, {1, kHeads, queries, kKeyDim}},
                                     {DType::kF32, {1, kHeads, count, kKeyDim}},
                                     {DType::kF32, {1, kHeads, count, kValueDim}}},
                                    {{attr::kScale, 0.3},
                                     {attr::kCausal, causal},
                                     {attr::kDiagonal, causal ? diagonal - begin : 0},
                                     {attr::kLogsumexp, true}});
      const std::vector<float> some_k = keys_of(k, kHeads, kKeyDim, begin, count),
                               some_v = keys_of(v, kHeads, kValueDim, begin, count);
      return outputs_of("highway.attention", spec, {q.data(), some_k.data(), some_v.data()});
    };
    std::vector<float> x, logs;
    std::int64_t parts = 0;
    for (std::int64_t begin = 0, count = 0; begin < keys; begin += count, ++parts) {
      count = 1 + below(keys - begin);
      const auto part = attend(begin, count);
      x.insert(x.end(), part[0].begin(), part[0].end());
      logs.insert(logs.end(), part[1].begin(), part[1].end());
    }
    const auto all = attend(0, keys);
    const auto merged =
        outputs_of("highway.merge_attention", merge_spec(DType::kF32, {parts, kHeads, queries, kValueDim}, 0, true),
                   {x.data(), logs.data()});
    for (const std::size_t result : {0U, 1U})
      for (std::size_t i = 0; i < all[result].size(); ++i) {
        if (std::isinf(all[result][i])) {
          ASSERT_EQ(merged[result][i], all[result][i]) << trial;
        } else {
          ASSERT_NEAR(merged[result][i], all[result][i], 4e-6) << trial << ", " << parts << " parts";
        }
      }
  }
}

TEST(MergeAttentionSupport, DeclinesOtherDtypesWithAReason) {
  const Support support =
      kernel_named("highway.merge_attention").supports(merge_spec(DType::kF64, {2, 3, 4}, 0, false), Target{});
  EXPECT_EQ(support.value_or(Rejection{}).reason, "stores f32 or bf16, not f64");
}

TEST(MergeAttentionCost, CountsEachPartOnce) {
  const Cost cost = kernel_named("highway.merge_attention").cost(merge_spec(DType::kBF16, {4, 3, 5, 8}, 0, false));
  EXPECT_EQ(cost.flops, 2.0 * 4 * 3 * 5 * 8);
  EXPECT_EQ(cost.bytes, 2.0 * 5 * 3 * 5 * 8 + 4.0 * 4 * 3 * 5);
}

}  // namespace
}  // namespace headroom
