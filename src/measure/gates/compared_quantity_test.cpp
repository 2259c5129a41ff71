#include "measure/gates/compared_quantity.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Result with_bytes(std::int64_t peak, std::int64_t weights) {
  Result result;
  result.memory = MemoryReport{};
  result.memory->peak_bytes = peak;
  result.memory->weights_bytes = weights;
  return result;
}

Result with_quality(const std::string& metric, std::optional<double> value, std::optional<Interval> interval = {}) {
  Result result;
  result.quality = {{.metric = metric,
                     .against = "the reference",
                     .value = value,
                     .interval = interval,
                     .note = value ? std::nullopt : std::optional<std::string>("identical")}};
  return result;
}

std::vector<ComparedQuantity> judged_quantities(const Result& base, const Result& changed, const Limits& limits = {}) {
  std::vector<std::string> notes;
  std::vector<ComparedQuantity> all = compare_quantities(base, changed, limits, notes);
  for (ComparedQuantity& one : all) one.judged = judge_quantity(one, limits, 0.05);
  return all;
}

Verdict verdict_of_quality(const Result& base, const Result& changed) {
  return judged_quantities(base, changed).at(0).judged.verdict;
}

TEST(ComparedQuantity, BytesCompareExactlyWithALimit) {
  const auto more = judged_quantities(with_bytes(1000, 500), with_bytes(1200, 550));
  ASSERT_THAT(more, SizeIs(2));
  EXPECT_EQ(more[0].judged.verdict, Verdict::kRegressed);
  EXPECT_EQ(more[0].judged.why, "20.0% more, the limit is 5%");
  EXPECT_EQ(more[1].judged.verdict, Verdict::kRegressed);
  const auto less = judged_quantities(with_bytes(1000, 500), with_bytes(800, 500));
  EXPECT_EQ(less[0].judged.verdict, Verdict::kImproved);
  EXPECT_EQ(less[1].judged.verdict, Verdict::kOk);
  EXPECT_TRUE(less[1].is_equal());
  EXPECT_EQ(judged_quantities(with_bytes(1000, 500), with_bytes(1040, 505))[0].judged.verdict, Verdict::kOk);
  EXPECT_EQ(judged_quantities(with_bytes(1000, 500), with_bytes(1050, 500))[0].judged.verdict, Verdict::kRegressed)
      << "at the limit";
}

TEST(ComparedQuantity, OutOfMemoryIsARegressionOfMemory) {
  Result too_large;
  too_large.tags = {std::string(kOutOfMemoryTag)};
  const auto worse = judged_quantities(with_bytes(1000, 500), too_large);
  EXPECT_EQ(worse[0].judged.verdict, Verdict::kRegressed);
  EXPECT_THAT(worse[0].judged.why, HasSubstr("more memory than the device has"));
  EXPECT_EQ(judged_quantities(too_large, with_bytes(1000, 500))[0].judged.verdict, Verdict::kImproved);
}

TEST(ComparedQuantity, QualityWithoutIntervalsComparesExactlyAndSaysSo) {
  const auto worse = judged_quantities(with_quality("psnr_db", 35), with_quality("psnr_db", 34));
  ASSERT_THAT(worse, SizeIs(1));
  EXPECT_EQ(worse[0].judged.verdict, Verdict::kRegressed);
  EXPECT_EQ(worse[0].judged.why, "1.00 dB less, the limit is 0.5 dB; the files give no interval");
  EXPECT_EQ(verdict_of_quality(with_quality("psnr_db", 35), with_quality("psnr_db", 34.6)), Verdict::kOk);
  EXPECT_EQ(verdict_of_quality(with_quality("psnr_db", 34), with_quality("psnr_db", 35)), Verdict::kImproved);
  EXPECT_EQ(verdict_of_quality(with_quality("relative_l2", 0.001), with_quality("relative_l2", 0.002)),
            Verdict::kRegressed);
  EXPECT_EQ(verdict_of_quality(with_quality("frechet_distance", 0.2), with_quality("frechet_distance", 0.1)),
            Verdict::kImproved);
}

TEST(ComparedQuantity, QualityWithIntervalsTakesThemForIndependent) {
  const Result base = with_quality("accuracy", 0.96, Interval{0.95, 0.97});
  EXPECT_EQ(verdict_of_quality(base, base), Verdict::kOk) << "the same images again";
  EXPECT_EQ(verdict_of_quality(base, with_quality("accuracy", 0.90, Interval{0.89, 0.91})), Verdict::kRegressed);
  EXPECT_EQ(verdict_of_quality(base, with_quality("accuracy", 0.955, Interval{0.945, 0.965})), Verdict::kInconclusive);
  EXPECT_EQ(verdict_of_quality(base, with_quality("accuracy", 0.96, Interval{0.957, 0.963})), Verdict::kInconclusive);
  const auto half = judged_quantities(base, with_quality("accuracy", 0.9));
  EXPECT_EQ(half[0].judged.verdict, Verdict::kRegressed);
  EXPECT_THAT(half[0].judged.why, HasSubstr("the new file gives no interval"));
}

TEST(ComparedQuantity, RoundingOfF32IsNoDifference) {
  EXPECT_EQ(verdict_of_quality(with_quality("psnr_db", std::nullopt), with_quality("psnr_db", 130)), Verdict::kOk);
  EXPECT_EQ(verdict_of_quality(with_quality("relative_l2", 2e-7), with_quality("relative_l2", 6e-7)), Verdict::kOk);
  EXPECT_EQ(verdict_of_quality(with_quality("psnr_db", std::nullopt), with_quality("psnr_db", 50)),
            Verdict::kRegressed);
}

TEST(ComparedQuantity, WhatOneSideLacksCountsWhereItWasAskedFor) {
  const Result none;
  const auto unasked = judged_quantities(with_quality("psnr_db", 35), none);
  EXPECT_EQ(unasked.at(0).judged.verdict, Verdict::kInconclusive);
  EXPECT_FALSE(unasked.at(0).counts);
  EXPECT_TRUE(judged_quantities(with_quality("psnr_db", 35), none, parse_limits("psnr=1dB", "--limit")).at(0).counts);
  EXPECT_THAT(judged_quantities(none, none), IsEmpty());
  const auto asked = judged_quantities(none, none, parse_limits("psnr=1dB,memory=5%", "--limit"));
  ASSERT_THAT(asked, SizeIs(2));
  EXPECT_EQ(asked[0].judged.why, "neither file has it");
  EXPECT_TRUE(asked[1].counts);
  EXPECT_THAT(judged_quantities(with_bytes(1, 1), with_bytes(2, 2), parse_limits("memory=off,size=off", "--limit")),
              IsEmpty());
}

TEST(ComparedQuantity, NamesMetricsThatItDoesNotKnow) {
  std::vector<std::string> notes;
  EXPECT_THAT(compare_quantities(with_quality("beauty", 1), with_quality("beauty", 0), {}, notes), IsEmpty());
  EXPECT_THAT(notes, ElementsAre(HasSubstr("the quality beauty is not judged")));
  for (const char* const difference : {"accuracy_difference", "frechet_difference"})
    (void)compare_quantities(with_quality(difference, 1), with_quality(difference, 0), {}, notes);
  EXPECT_THAT(notes, SizeIs(1)) << "the accuracy and the distance themselves are judged";
}

}  // namespace
}  // namespace headroom
