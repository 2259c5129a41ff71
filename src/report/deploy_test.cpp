#include "report/deploy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/test_util.hpp"

namespace headroom {
namespace {

using test::make_dataset;
using test::make_file;
using test::make_result;
using testing::ElementsAre;
using testing::SizeIs;

Subject batch_of_images(std::int64_t images) {
  Subject subject = test::denoise_subject();
  subject.request["images"] = images;
  return subject;
}

TEST(Recommend, ChoosesByPurposeWithinTheLimit) {
  // steps in ms; a request is ten of them
  std::vector<Result> results = {
      make_result({}, {10, 10}, batch_of_images(1)), make_result({"arena"}, {8, 8}, batch_of_images(1)),
      make_result({"bf16"}, {4, 4}, batch_of_images(1)), make_result({"int8"}, {2, 2}, batch_of_images(1)),
      make_result({"steps=2"}, {9, 9}, batch_of_images(1))};
  test::set_quality(results[2], "psnr_db", 60);  // loses 0.001
  test::set_quality(results[3], "psnr_db", 20);  // loses 0.1
  for (std::size_t i = 0; i < results.size(); ++i)
    test::set_memory(results[i], 100, 1000 - static_cast<std::int64_t>(i == 1 ? 500 : 0), 1000);
  std::vector<Result> eight = {make_result({}, {40, 40}, batch_of_images(8)),
                               make_result({"arena"}, {20, 20}, batch_of_images(8))};
  const Dataset dataset = make_dataset({make_file(results), make_file(eight)});

  const std::vector<Recommendation> all = recommend(dataset, 0.01);
  ASSERT_THAT(all, SizeIs(1));
  const Recommendation& r = all.front();
  EXPECT_EQ(r.lowest_latency->measurement->label, "bf16");
  EXPECT_EQ(r.lowest_latency->request_ms, 40);
  EXPECT_EQ(r.highest_throughput->measurement->label, "arena");  // eight at once in 200 ms
  EXPECT_EQ(r.highest_throughput->images_per_second, 40);
  EXPECT_EQ(r.least_memory->measurement->label, "arena");
  EXPECT_THAT(r.beyond_limit, ElementsAre("int8"));
  EXPECT_THAT(r.unknown, ElementsAre("steps=2"));

  EXPECT_EQ(recommend(dataset, 0.2).front().lowest_latency->measurement->label, "int8");
  EXPECT_EQ(recommend(dataset, 0).front().lowest_latency->measurement->label, "arena");  // exact
}

TEST(QualityLoss, TakesTheBestEvidence) {
  std::vector<Result> results = {make_result({}, {1}), make_result({"bf16"}, {1}), make_result({"int8"}, {1}),
                                 make_result({"arena"}, {1})};
  test::set_quality(results[0], "accuracy", 0.98);
  test::set_quality(results[1], "psnr_db", 20);
  test::set_quality(results[1], "accuracy", 0.97);
  test::set_quality(results[2], "relative_l2", 0.05);
  test::set_quality(results[3], "psnr_db", {}, {}, "identical");
  const Dataset dataset = make_dataset({make_file(results)});
  const auto& m = dataset.measurements();
  EXPECT_NEAR(quality_loss(m[1], m[0])->value, 0.01, 1e-12);
  EXPECT_EQ(quality_loss(m[2], m[0])->value, 0.05);
  EXPECT_EQ(quality_loss(m[3], m[0])->value, 0);
}

TEST(VerdictOf, GoesByTheInterval) {
  EXPECT_EQ(verdict_of(Estimate{1.2, Interval{1.1, 1.3}}), AdoptionVerdict::kFaster);
  EXPECT_EQ(verdict_of(Estimate{1.2, Interval{0.9, 1.3}}), AdoptionVerdict::kNoDifference);
  EXPECT_EQ(verdict_of(Estimate{0.8, Interval{0.7, 0.9}}), AdoptionVerdict::kSlower);
  EXPECT_EQ(verdict_of(Estimate{1.2, {}}), AdoptionVerdict::kUnknown);
}

}  // namespace
}  // namespace headroom
