#include "measure/probes/known_cards.hpp"

#include <gmock/gmock.h>

#include <memory>
#include <set>

#include "backends/backend.hpp"
#include "base/error.hpp"
#include "base/test_util.hpp"
#include "ir/builder.hpp"
#include "plan/plan.hpp"

namespace headroom {
namespace {

using ::testing::HasSubstr;

TEST(KnownCards, AreFoundByTheNameThatTheDriverGives) {
  EXPECT_EQ(card_of("NVIDIA H200")->key, "h200");
  EXPECT_EQ(card_of("NVIDIA H200 NVL")->key, "h200-nvl");
  EXPECT_EQ(card_of("NVIDIA H100 80GB HBM3")->key, "h100");
  EXPECT_EQ(card_of("NVIDIA H100 PCIe")->key, "h100-pcie");
  EXPECT_EQ(card_of("NVIDIA A100-SXM4-80GB")->key, "a100");
  EXPECT_EQ(card_of("NVIDIA A100-SXM4-40GB")->key, "a100-40gb");
  EXPECT_EQ(card_of("NVIDIA A100 80GB PCIe")->key, "a100-pcie");
  EXPECT_EQ(card_of("NVIDIA L40S")->key, "l40s");
  EXPECT_EQ(card_of("NVIDIA GeForce RTX 4090")->key, "4090");
  EXPECT_EQ(card_of("NVIDIA GeForce GTX 1080"), nullptr);
  EXPECT_EQ(card_of("NVIDIA L40"), nullptr);
  EXPECT_EQ(card_of(""), nullptr);
  EXPECT_THAT(error_of([] { static_cast<void>(card_named("h10")); }),
              HasSubstr("'h10' is no known card, there are b200, "));
}

TEST(KnownCards, HaveRatesThatAgree) {
  std::set<std::string_view> keys;
  for (const KnownCard& card : known_cards()) {
    EXPECT_TRUE(keys.insert(card.key).second) << card.key;
    EXPECT_EQ(card_of(card.name), &card) << card.key << " is hidden by a row above it";
    EXPECT_EQ(&card_named(card.key), &card);
    EXPECT_NEAR(card.bf16 / card.tf32, 2, 0.05) << card.key;
    if (card.f8e4m3 > 0) {
      EXPECT_NEAR(card.f8e4m3 / card.bf16, 2, 0.05) << card.key;
    }
    EXPECT_GT(card.bytes_per_s, 1e11) << card.key;
    EXPECT_FALSE(card.source.empty()) << card.key;
  }
}

TEST(PredictOn, TakesTheLongerOfBytesAndFlops) {
  Graph graph("two");
  Builder b(graph);
  const ValueId x = graph.add_input("x", {DType::kF32, {1024, 1024}});
  graph.add_output("y", b.linear(x, graph.add_param("w", {DType::kF32, {1024, 1024}})));
  graph.add_output("z", b.add(x, x));
  const std::unique_ptr<Backend> backend = make_backend(DeviceKind::kCpu, 1);
  const Program program = plan(std::move(graph), backend->properties().target, {.arena = true});
  const KnownCard card{.key = "card", .bytes_per_s = 1e9, .f32 = 1e12, .memory_bytes = 1e6};
  double flops_ms = 0, bytes_ms = 0;
  for (const Step& step : program.steps)
    (step.op == Op::kLinear ? flops_ms : bytes_ms) +=
        step.op == Op::kLinear ? std::max(step.cost.flops / 1e9, step.cost.bytes / 1e6) : step.cost.bytes / 1e6;
  const CardPrediction slow_memory = predict_on(card, program);
  EXPECT_NEAR(slow_memory.floor_ms, flops_ms + bytes_ms, 1e-9);
  EXPECT_NEAR(slow_memory.ms, slow_memory.floor_ms / kReachedOfMemory, 1e-9) << "both are bound by bytes";
  EXPECT_FALSE(slow_memory.fits);
  KnownCard slow_units = card;
  slow_units.bytes_per_s = 1e15;
  slow_units.memory_bytes = 1e12;
  const CardPrediction units = predict_on(slow_units, program);
  EXPECT_NEAR(units.floor_ms, 2.0 * 1024 * 1024 * 1024 / 1e9, 1e-3);
  EXPECT_NEAR(units.ms, units.floor_ms / kReachedOfFlops, 1e-3);
  EXPECT_TRUE(units.fits);
  slow_units.f32 = 0;
  EXPECT_EQ(predict_on(slow_units, program).lacks, "f32");
}

}  // namespace
}  // namespace headroom
