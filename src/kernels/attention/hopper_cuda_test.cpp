#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/tensors/divide_up.hpp"
#include "kernels/attention/algorithm.hpp"
#include "kernels/attention/hopper.hpp"
#include "kernels/core/cuda/tuner_of.hpp"
#include "kernels/core/library_kernel.hpp"
#include "testing/gpu_check.hpp"
#include "testing/own_cache.hpp"

namespace headroom::attentions {
namespace {

using testing::HasSubstr;

enum class Bias : std::uint8_t { kNone, kAdded, kMask };

struct Case {
  std::int64_t batch, heads, queries, keys, dim, value_dim;
  std::int64_t kv_heads = heads;
  double scale = 0.2;
  bool logsumexp = false;
  bool causal = false;
  std::int64_t diagonal = 0;
  Bias bias = Bias::kNone;
  /// Whether the bias is the same for all of a batch, all heads, all queries.
  bool shares_batch = false, shares_heads = false, shares_queries = false;
};

OpSpec spec_of(DType dtype, const Case& c) {
  std::vector<TensorType> inputs = {{dtype, {c.batch, c.heads, c.queries, c.dim}},
                                    {dtype, {c.batch, c.kv_heads, c.keys, c.dim}},
                                    {dtype, {c.batch, c.kv_heads, c.keys, c.value_dim}}};
  if (c.bias != Bias::kNone)
    inputs.push_back(
        {c.bias == Bias::kMask ? DType::kBool : dtype,
         {c.shares_batch ? 1 : c.batch, c.shares_heads ? 1 : c.heads, c.shares_queries ? 1 : c.queries, c.keys}});
  return make_spec(Op::kAttention, inputs,
                   {{"scale", c.scale},
                    {"causal", std::int64_t{c.causal}},
                    {"diagonal", c.diagonal},
                    {"logsumexp", std::int64_t{c.logsumexp}}});
}

std::vector<Operand> dense_operands(const std::vector<TensorType>& types) {
  std::vector<Operand> operands;
  for (const TensorType& type : types) operands.push_back(dense_operand(type));
  return operands;
}

AttentionProblem problem_of(const Case& c, DType dtype = DType::kBF16) {
  const OpSpec spec = spec_of(dtype, c);
  return attention_problem(spec, dense_operands(spec.inputs), dense_operands(spec.outputs));
}

/// Parts of tiles and of units of keys, many units, heads smaller than the padded matmuls, values in heads of
/// another size.
std::vector<Case> cases() {
  return {{1, 1, 1, 1, 8, 8},      {2, 3, 17, 17, 40, 40},   {1, 2, 272, 272, 64, 64},  {1, 2, 130, 65, 64, 64},
          {1, 1, 64, 700, 64, 32}, {2, 2, 200, 77, 64, 64},  {1, 2, 100, 513, 48, 48},  {1, 3, 193, 129, 24, 56},
          {1, 2, 65, 80, 16, 16},  {2, 3, 128, 128, 32, 32}, {1, 1, 385, 600, 64, 64},  {1, 2, 130, 65, 128, 128},
          {2, 2, 200, 77, 72, 72}, {1, 1, 64, 700, 128, 64}, {1, 2, 100, 513, 64, 128}, {1, 1, 300, 600, 96, 88},
          {1, 1, 1, 1, 128, 128}};
}

/// With a causal order, a bias or a mask: squares and others, and so few keys that a mask leaves some queries none.
std::vector<Case> cases_with_hidden_keys() {
  std::vector<Case> cases;
  for (const Case& c : {Case{2, 2, 77, 77, 64, 64}, Case{1, 4, 300, 300, 64, 64, 2}, Case{1, 2, 150, 400, 128, 128},
                        Case{1, 2, 400, 150, 96, 96}, Case{2, 3, 130, 2, 40, 40}, Case{1, 2, 33, 1, 128, 72}})
    for (const Bias bias : {Bias::kNone, Bias::kAdded, Bias::kMask})
      for (const bool causal : {false, true}) {
        if (bias == Bias::kNone && !causal) continue;
        Case made = c;
        made.bias = bias, made.causal = causal, made.logsumexp = c.keys != 77;
        made.shares_batch = cases.size() % 3 == 0, made.shares_heads = cases.size() % 4 == 1;
        made.shares_queries = cases.size() % 5 == 2;
        cases.push_back(made);
      }
  return cases;
}

/// Diagonals that leave tiles, warpgroups, rows of a thread without keys, that cut tiles anywhere, and that cut none.
std::vector<Case> cases_with_a_diagonal() {
  std::vector<Case> cases;
  for (const Case& c : {Case{1, 4, 300, 300, 64, 64, 2}, Case{1, 2, 150, 400, 128, 128}, Case{1, 2, 400, 150, 96, 96},
                        Case{2, 3, 130, 2, 40, 40}, Case{1, 2, 33, 1, 128, 72}})
    for (const std::int64_t diagonal :
         {1L, 100L, c.keys - c.queries, -1L, -9L, -64L, -140L, -c.queries, -100000L, 100000L}) {
      Case made = c;
      made.causal = true, made.diagonal = diagonal, made.logsumexp = cases.size() % 2 == 0;
      made.bias = static_cast<Bias>(cases.size() % 7 % 3);
      cases.push_back(made);
    }
  return cases;
}

/// Probabilities are rounded before the second matmul.
Tolerance tolerance_of(DType dtype) {
  return {.relative_l2 = dtype == DType::kBF16 ? 8e-3 : 1e-3, .max_ulps_of_peak = 4};
}

/// The kernel with one tile.
LibraryKernel kernel_of(const HopperTile& tile) {
  return LibraryKernel({.name = "tile",
                        .op = Op::kAttention,
                        .device = DeviceKind::kCuda,
                        .supports = why_not_hopper,
                        .strided = kAllStrided,
                        .plan = [tile](const KernelBinding& b) {
                          return bind(make_hopper_algorithm(attention_problem(b.spec, b.inputs, b.outputs), tile));
                        }});
}

class HopperAttention : public cuda::KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (!IsSkipped() && target().compute_capability != 90) GTEST_SKIP() << "the kernel is for Hopper";
  }

  void expect_agrees(const HopperTile& tile, const Case& c, DType dtype, Tolerance tolerance,
                     TestStrides strides = TestStrides::kDense) {
    Comparison result;
    try {
      result = compare(kernel_of(tile), spec_of(dtype, c), 1, tolerance, strides);
    } catch (const Error& error) {  // with the case that it came from
      result.message = error.what();
    }
    EXPECT_TRUE(result.passed) << name_of(tile) << ", " << name_of(dtype) << " " << c.batch << "x" << c.heads << "/"
                               << c.kv_heads << " heads, " << c.queries << " x " << c.keys << " of " << c.dim << "/"
                               << c.value_dim << ", scale " << c.scale << (c.causal ? ", causal by " : " ")
                               << c.diagonal << ", bias " << static_cast<int>(c.bias) << ", strides "
                               << static_cast<int>(strides) << ": " << result.message;
  }
  void expect_agrees(const HopperTile& tile, const Case& c, DType dtype) {
    expect_agrees(tile, c, dtype, tolerance_of(dtype));
  }
};

TEST_F(HopperAttention, AgreesForEveryShape) {
  for (const Case& c : cases())
    for (const DType dtype : {DType::kBF16, DType::kF16})
      for (const HopperTile& tile : hopper_tiles(problem_of(c)))
        if (tile.split == 1 && tile.whole <= 2) expect_agrees(tile, c, dtype);
}

TEST_F(HopperAttention, AgreesInClustersThatShareATile) {
  for (const Case& c : cases())
    for (const HopperTile& tile : hopper_tiles(problem_of(c)))
      if (tile.split > 1 && tile.whole <= 1)
        expect_agrees(tile, c, (tile.split + tile.whole) % 2 == 0 ? DType::kBF16 : DType::kF16);
}

TEST_F(HopperAttention, AgreesWhereKeysAreSpreadOverBlocks) {
  for (const Case& c :
       {Case{1, 2, 385, 3000, 64, 64}, Case{1, 2, 300, 3000, 128, 96, 1}, Case{2, 24, 200, 300, 128, 128}})
    for (const bool logsumexp : {false, true}) {
      Case made = c;
      made.logsumexp = logsumexp;
      int spread = 0;
      for (const HopperTile& tile : hopper_tiles(problem_of(made)))
        if (tile.spread > 0) {
          ++spread;
          expect_agrees(tile, made, logsumexp ? DType::kF16 : DType::kBF16,
                        {.relative_l2 = 8e-3, .max_ulps_of_peak = 1e5});
        }
      EXPECT_GT(spread, 0) << c.queries << " x " << c.keys;
    }
}

TEST_F(HopperAttention, TakesACausalOrderABiasOrAMask) {
  for (const Case& c : cases_with_hidden_keys())
    for (const DType dtype : {DType::kBF16, DType::kF16})
      for (const HopperTile& tile : hopper_tiles(problem_of(c)))
        if (tile.whole <= 3)
          for (const TestStrides strides : {TestStrides::kDense, TestStrides::kPermuted})
            expect_agrees(tile, c, dtype, {.relative_l2 = 8e-3, .max_ulps_of_peak = 1e5}, strides);
}

TEST_F(HopperAttention, TakesADiagonal) {
  for (const Case& c : cases_with_a_diagonal())
    for (const HopperTile& tile : hopper_tiles(problem_of(c)))
      if (tile.whole <= 3)
        expect_agrees(tile, c, tile.whole % 2 == 0 ? DType::kF16 : DType::kBF16,
                      {.relative_l2 = 8e-3, .max_ulps_of_peak = 1e5});
}

/// Problems of any shape, in a tile that is guessed; others with another --gtest_random_seed.
TEST_F(HopperAttention, AgreesForRandomProblems) {
  std::mt19937 random(1 + static_cast<unsigned>(GTEST_FLAG_GET(random_seed)));
  const auto up_to = [&](std::int64_t most) { return std::uniform_int_distribution<std::int64_t>(1, most)(random); };
  for (int i = 0; i < 200; ++i) {
    const std::int64_t kv_heads = up_to(3);
    Case c{.batch = up_to(2),
           .heads = kv_heads * up_to(3),
           .queries = up_to(i % 4 == 0 ? 500 : 150),
           .keys = up_to(i % 3 == 0 ? 500 : 150),
           .dim = 8 * up_to(16),
           .value_dim = 8 * up_to(16),
           .kv_heads = kv_heads};
    c.logsumexp = i % 2 == 0, c.causal = i % 3 == 1, c.bias = static_cast<Bias>(i % 5 % 3);
    c.shares_batch = up_to(2) == 1, c.shares_heads = up_to(2) == 1, c.shares_queries = up_to(2) == 1;
    if (c.causal && i % 2 == 0) c.diagonal = up_to(c.queries + c.keys) - c.queries - 1;
    const std::vector<HopperTile> best = best_hopper_tiles(problem_of(c), hopper_clusters_at_once);
    ASSERT_FALSE(best.empty());
    expect_agrees(best[static_cast<std::size_t>(up_to(static_cast<std::int64_t>(best.size())) - 1)], c,
                  i % 2 == 0 ? DType::kBF16 : DType::kF16, {.relative_l2 = 8e-3, .max_ulps_of_peak = 1e5},
                  i % 7 == 0 ? TestStrides::kPermuted : TestStrides::kDense);
  }
}

TEST_F(HopperAttention, TakesHeadsThatLieApartOrInterleaved) {
  for (const Case& c : {Case{2, 3, 70, 77, 40, 40}, Case{2, 2, 200, 150, 64, 64, 1}, Case{2, 2, 200, 150, 128, 128, 1}})
    for (const HopperTile& tile : hopper_tiles(problem_of(c)))
      if (tile.split <= 2 && tile.whole <= 1)
        for (const TestStrides strides : {TestStrides::kPadded, TestStrides::kPermuted})
          expect_agrees(tile, c, DType::kBF16, tolerance_of(DType::kBF16), strides);
}

TEST_F(HopperAttention, SharesHeadsOfKeysAndGivesTheLogarithmOfTheSum) {
  const Case c{
      .batch = 2, .heads = 4, .queries = 70, .keys = 150, .dim = 64, .value_dim = 64, .kv_heads = 2, .logsumexp = true};
  for (const HopperTile& tile : hopper_tiles(problem_of(c)))
    if (tile.split <= 3 && tile.whole <= 1)
      for (const DType dtype : {DType::kBF16, DType::kF16})
        expect_agrees(tile, c, dtype, {.relative_l2 = 8e-3, .max_ulps_of_peak = 1e5});
}

/// The largest score grows from one unit of keys to the next, so that sums are scaled; and the exponentials of many
/// scores overflow.
TEST_F(HopperAttention, TakesScoresThatWouldOverflowAnExponential) {
  for (const double scale : {2.0, 30.0, 100.0}) {
    const Case c{.batch = 1, .heads = 1, .queries = 100, .keys = 700, .dim = 64, .value_dim = 64, .scale = scale};
    for (const HopperTile& tile : hopper_tiles(problem_of(c)))
      if (tile.split <= 2 && tile.whole <= 1)
        for (const DType dtype : {DType::kBF16, DType::kF16}) expect_agrees(tile, c, dtype);
  }
}

TEST_F(HopperAttention, IsAmongTheAlgorithmsOfFastestAttention) {
  for (const Case& c : {Case{1, 2, 200, 77, 64, 64}, Case{1, 2, 512, 512, 64, 64}, Case{1, 2, 512, 512, 128, 128}})
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      expect_matches_oracle("fastest.attention", spec_of(dtype, c), tolerance_of(dtype));
      const std::vector<HopperTile> best = best_hopper_tiles(problem_of(c), hopper_clusters_at_once);
      ASSERT_FALSE(best.empty());
      if (dtype == DType::kBF16)
        for (const HopperTile& tile : best) expect_agrees(tile, c, dtype);
    }
}

TEST_F(HopperAttention, IsTakenOverForOtherTokens) {
  const cuda::OwnCache cache;
  tune::Tuner search(backend(), cuda::driver_version(), versions(), cuda::fill_random);
  const auto keep = [&](const HopperTile& fastest, std::int64_t queries, std::int64_t keys) {
    search.keep({.text = fmt::format("{} x {}", queries, keys),
                 .operands = {},
                 .size_key = {.family = "attention f16 8/8 heads of 64/64", .size = {1, queries, keys}}},
                name_of(fastest), 1);
  };
  for (const auto& [queries, keys, from] : {std::tuple{576, 576, 1024}, {784, 77, 77}}) {
    const Case c{1, 8, queries, keys, 64, 64};
    const std::vector<HopperTile> best = best_hopper_tiles(problem_of(c, DType::kF16), hopper_clusters_at_once);
    ASSERT_GT(best.size(), 4U);
    keep(best[1], 1024, from);
    keep(best.back(), queries + 1, keys);  // far from the guess
    EXPECT_EQ(take_over("fastest.attention", spec_of(DType::kF16, c), tolerance_of(DType::kF16)),
              fmt::format("{}, taken over from size 1x1024x{}", name_of(best[1]), from));
  }
}

TEST(HopperAttentionTiles, AreFoundAgainByName) {
  for (const Case& c : cases()) {
    const AttentionProblem problem = problem_of(c);
    std::set<std::string> names;
    for (const HopperTile& tile : hopper_tiles(problem)) {
      EXPECT_TRUE(names.insert(name_of(tile)).second) << name_of(tile);
      if (tile.whole > 1) continue;
      const std::optional<Algorithm> algorithm = find_hopper_algorithm(problem, name_of(tile));
      ASSERT_TRUE(algorithm.has_value()) << name_of(tile);
      EXPECT_EQ(algorithm->name, name_of(tile));
    }
    EXPECT_FALSE(names.empty());
    EXPECT_FALSE(find_hopper_algorithm(problem, "hopper 64 queries x 16 keys, 1 tile a block").has_value());
  }
  EXPECT_EQ(name_of(HopperTile{2, 128, 4, 1, true}), "hopper 128 queries x 128 keys, 1 tile a block and 1 shared by 4");
  EXPECT_EQ(name_of(HopperTile{1, 64, 2, 0, true}), "hopper 64 queries x 64 keys, 1 shared by 2");
  EXPECT_EQ(name_of(HopperTile{3, 128, 1, 2, false}), "hopper 192 queries x 128 keys, 2 tiles a block");
  EXPECT_EQ(name_of(HopperTile{2, 144, 1, 6, false, 132}),
            "hopper 128 queries x 144 keys, 6 tiles a block and the rest spread over 132");
}

/// As an H100 has them: six clusters of GPCs of 16 multiprocessors and two of 18.
int clusters_of_h100(const HopperTile& tile, const HopperForm& /*form*/) {
  const int resident = tile.warpgroups > 1 ? 1 : tile.keys == 80 ? 3 : 2;
  return resident * (6 * (16 / tile.split) + 2 * (18 / tile.split));
}

/// bench/results/h100/attention_ways.txt: the best guesses are measured, so the fastest is found even if it is not
/// the first guess.
TEST(HopperAttentionTiles, TheFastestAsMeasuredComeFirst) {
  struct Measured {
    Case shape;
    HopperTile fastest;
  };
  constexpr HopperTile kFor77{1, 80, 1, 1, false}, kSmall{1, 64, 1, 1, false}, kMiddle{2, 128, 1, 1, false},
      kLarge{3, 128, 1, 1, false};
  const auto with = [](HopperTile tile, int whole, int split = 1) {
    tile.whole = whole, tile.split = split, tile.shares = split > 1;
    return tile;
  };
  for (const auto& [shape, fastest] : {Measured{{1, 5, 4096, 4096, 64, 64}, kLarge},
                                       {{1, 10, 1024, 1024, 64, 64}, kMiddle},
                                       {{1, 20, 256, 256, 64, 64}, kSmall},
                                       {{1, 20, 64, 64, 64, 64}, kSmall},
                                       {{1, 5, 4096, 77, 64, 64}, kFor77},
                                       {{1, 10, 1024, 77, 64, 64}, kFor77},
                                       {{1, 20, 256, 77, 64, 64}, kFor77},
                                       {{2, 10, 4096, 4096, 64, 64}, with(kLarge, 3, 2)},
                                       {{2, 20, 1024, 1024, 64, 64}, with(kLarge, 2)},
                                       {{2, 10, 4096, 77, 64, 64}, with(kFor77, 4)},
                                       {{2, 20, 1024, 77, 64, 64}, with(kFor77, 2)},
                                       {{2, 8, 4096, 4096, 40, 40}, with(kLarge, 3)},
                                       {{1, 12, 256, 288, 64, 64}, kSmall},
                                       {{1, 40, 64, 96, 64, 64}, kSmall},
                                       {{1, 6, 1024, 1024, 64, 64}, with(kMiddle, 0, 2)},
                                       {{1, 18, 256, 256, 64, 64}, kSmall},
                                       {{1, 24, 64, 64, 64, 64}, kSmall},
                                       {{4, 8, 1024, 1024, 32, 32}, with(kMiddle, 2)},
                                       {{4, 8, 1024, 1024, 8, 8}, with(kMiddle, 2)}}) {
    const std::vector<HopperTile> best = best_hopper_tiles(problem_of(shape), clusters_of_h100);
    ASSERT_FALSE(best.empty());
    EXPECT_EQ(best.front(), fastest) << shape.queries << " x " << shape.keys << ": " << name_of(best.front())
                                     << " in place of " << name_of(fastest);
  }
  // With heads of 40, tiles of 80 keys are slower than the guess has them.
  const std::vector<HopperTile> best = best_hopper_tiles(problem_of({2, 8, 4096, 77, 40, 40}), clusters_of_h100);
  const auto place = std::ranges::find(best, with(kLarge, 3)) - best.begin();
  EXPECT_LT(place, 3);
}

TEST(HopperAttentionTiles, TakeAllTokensOfATextAtOnceAndNoOtherKeysSo) {
  const auto takes_80 = [](const HopperTile& tile) { return tile.keys == 80; };
  for (const auto& [keys, is_of_use] : {std::pair{64, false}, {65, true}, {77, true}, {80, true}, {81, false}})
    EXPECT_EQ(std::ranges::any_of(hopper_tiles(problem_of({1, 5, 4096, keys, 64, 64})), takes_80), is_of_use) << keys;
}

TEST(HopperAttentionTiles, TakeEachQueryOnceInOneWave) {
  for (const Case& c : {Case{1, 5, 4096, 4096, 64, 64}, Case{2, 10, 4096, 4096, 64, 64},
                        Case{2, 20, 1024, 1024, 64, 64}, Case{1, 20, 256, 256, 64, 64}, Case{1, 20, 64, 64, 64, 64},
                        Case{1, 8, 4096, 4096, 40, 40}, Case{1, 40, 64, 68, 64, 64}}) {
    const AttentionProblem problem = problem_of(c);
    const std::vector<HopperTile> all = hopper_tiles(problem), best = best_hopper_tiles(problem, clusters_of_h100);
    EXPECT_FALSE(best.empty());
    for (const HopperTile& tile : best) {
      EXPECT_EQ(std::ranges::count(all, tile), 1) << name_of(tile);
      const std::int64_t tiles = c.batch * c.heads * divide_up<std::int64_t>(c.queries, tile.queries());
      if (tile.spread > 0) {  // all blocks at once, and all keys of all tiles
        EXPECT_LT(tiles - tile.spread * tile.whole, tile.spread) << name_of(tile);
        continue;
      }
      const std::int64_t clusters = divide_up<std::int64_t>(tiles, tile.tiles_of_cluster());
      const bool comes_as_it_may = tile.tiles_of_cluster() == 1;  // as blocks end, others begin
      EXPECT_TRUE(comes_as_it_may || clusters <= clusters_of_h100(tile, {})) << name_of(tile);
    }
  }
}

TEST(HopperAttentionSupport, SaysWhatItDoesNotTake) {
  const Target hopper{.device = DeviceKind::kCuda, .compute_capability = 90};
  const auto why_not = [&](const OpSpec& spec, const Target& target) {
    const Support rejection = kernel_named("fastest.attention").supports(spec, target);
    return rejection ? rejection->reason : "";
  };
  const Case c{1, 2, 16, 16, 64, 64};
  EXPECT_EQ(why_not(spec_of(DType::kBF16, c), hopper), "");
  EXPECT_EQ(why_not(spec_of(DType::kF16, {1, 2, 16, 77, 40, 40}), hopper), "");
  EXPECT_THAT(why_not(spec_of(DType::kF32, c), hopper), HasSubstr("bf16 or f16, not f32"));
  EXPECT_THAT(why_not(spec_of(DType::kBF16, {1, 2, 16, 16, 136, 136}), hopper), HasSubstr("not 136"));
  EXPECT_THAT(why_not(spec_of(DType::kBF16, {1, 2, 16, 16, 64, 36}), hopper), HasSubstr("not 36"));
  EXPECT_THAT(why_not(spec_of(DType::kBF16, {1, 2, 16, 16, 64, 64, 2, -0.1}), hopper), HasSubstr("scales above 0"));
  EXPECT_THAT(why_not(spec_of(DType::kBF16, c), {.device = DeviceKind::kCuda, .compute_capability = 80}),
              HasSubstr("9.0"));
  for (const Case& taken : cases_with_a_diagonal()) EXPECT_EQ(why_not(spec_of(DType::kBF16, taken), hopper), "");
  for (const Case& taken : cases_with_hidden_keys()) EXPECT_EQ(why_not(spec_of(DType::kBF16, taken), hopper), "");
}

}  // namespace
}  // namespace headroom::attentions
