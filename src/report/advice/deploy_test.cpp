#include "report/advice/deploy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "report/advice/decision_html.hpp"
#include "report/advice/price.hpp"
#include "report/test_util.hpp"

namespace headroom {
namespace {

using test::make_dataset;
using test::make_file;
using test::make_result;
using testing::Contains;
using testing::ElementsAre;
using testing::Not;
using testing::SizeIs;

Subject batch_of_images(std::int64_t images) {
  Subject subject = test::denoise_subject();
  subject.request["images"] = images;
  return subject;
}

TEST(Decide, ChoosesByPurposeWithinTheLimit) {
  // Steps in ms; a request has ten.
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

  const std::vector<View> views = views_of(dataset);
  ASSERT_THAT(views, SizeIs(1));
  const Decision d = decide(dataset, views.front(), 0.01);
  EXPECT_EQ(d.deploy->measurement->label, "bf16");
  EXPECT_EQ(d.deploy->request_ms, 40);
  EXPECT_EQ(d.highest_throughput->measurement->label, "arena");  // eight at once in 200 ms
  EXPECT_EQ(d.highest_throughput->per_second, 40);
  EXPECT_EQ(d.least_memory->measurement->label, "arena");
  EXPECT_THAT(d.beyond_limit, ElementsAre("int8"));
  EXPECT_EQ(d.faster_beyond->measurement->label, "int8");
  EXPECT_THAT(d.unknown, ElementsAre("steps=2"));
  EXPECT_EQ(d.faster_unknown->measurement->label, "steps=2");  // 18 ms

  EXPECT_EQ(decide(dataset, views.front(), 0.2).deploy->measurement->label, "int8");
  EXPECT_EQ(decide(dataset, views.front(), 0).deploy->measurement->label, "arena");  // exact
}

/// The trials, each twice, so that there are enough for an interval.
std::vector<double> twice(std::vector<double> trials_ms) {
  const std::vector<double> once = trials_ms;
  trials_ms.insert(trials_ms.end(), once.begin(), once.end());
  return trials_ms;
}

TEST(Decide, TellsUnsettledBatchesApart) {
  std::vector<Result> one = {make_result({}, {10, 10}, batch_of_images(1))},
                      eight = {make_result({}, {40, 40}, batch_of_images(8))};
  one[0].unsettled = eight[0].unsettled = "busy";
  const Dataset several = make_dataset({make_file(one), make_file(eight)});
  EXPECT_THAT(decide(several, views_of(several).front(), 0.01).unsettled,
              testing::UnorderedElementsAre("baseline, 1 at once (busy)", "baseline, 8 at once (busy)"));
  const Dataset single = make_dataset({make_file(one)});
  EXPECT_THAT(decide(single, views_of(single).front(), 0.01).unsettled, ElementsAre("baseline (busy)"));
  const View view = views_of(single).front();
  EXPECT_THAT(decision_row(single, view, 1, decide(single, view, 0.01)),
              testing::AllOf(testing::HasSubstr("unsettled"), Not(testing::HasSubstr("not timed"))));
}

TEST(Decide, TakesFewerSwitchesWhereTimesDoNotDiffer) {
  const Dataset dataset = make_dataset(
      {make_file({make_result({}, twice({20, 20, 21, 20})), make_result({"arena"}, twice({10, 12, 11, 10})),
                  make_result({"arena", "fuse"}, twice({10, 11, 10, 12}))})});
  EXPECT_EQ(decide(dataset, views_of(dataset).front(), 0.01).deploy->measurement->label, "arena");
}

TEST(Decide, RecommendsNoSwitchThatDeclined) {
  // The two last are one program, which noise makes differ.
  Result declined = make_result({"arena", "bf16", "tile"}, twice({8, 8, 8, 8}));
  declined.configuration.applied = {"arena", "bf16"};
  declined.configuration.declined = {{.name = "tile", .reason = "no chain of ops gains"}};
  std::vector<Result> results = {make_result({}, twice({20, 20, 20, 20})),
                                 make_result({"arena"}, twice({10, 10, 10, 10})),
                                 make_result({"arena", "bf16"}, twice({9, 9, 9, 9})), declined};
  test::set_quality(results[2], "psnr_db", 60);
  test::set_quality(results[3], "psnr_db", 60);
  const auto decide_on = [](const std::vector<Result>& of) {
    const Dataset dataset = make_dataset({make_file(of)});
    const Decision d = decide(dataset, views_of(dataset).front(), 0.01);
    std::vector<std::string> adopted;
    for (const Adoption& one : d.adoption)
      if (one.adopt) adopted.insert(adopted.end(), one.switches.begin(), one.switches.end());
    EXPECT_EQ(adopted, d.deploy->measurement->switches());
    return d.deploy->measurement->switches();
  };
  EXPECT_THAT(decide_on(results), ElementsAre("arena", "bf16"));
  results[2].unsettled = "its rounds disagree";
  EXPECT_THAT(decide_on(results), ElementsAre("arena", "bf16", "tile")) << "the only settled one";
}

/// A stream of 40 frames that come at 50 a second. One is taken each `every_ms`, and takes `latency_ms`.
Result paced_stream(std::vector<std::string> switches, double every_ms, double latency_ms) {
  Result result = make_result(std::move(switches), {1}, {.kind = SubjectKind::kStream, .name = "stream"});
  result.trials.clear();
  LatencyRecord record{.input_fps = 50, .came = 40, .shown = 40};
  for (std::int64_t i = 0; i < record.came; ++i) {
    const double arrived = 20.0 * static_cast<double>(i), begins = every_ms * static_cast<double>(i);
    record.frame.push_back(i);
    record.arrived_ms.push_back(arrived);
    record.decode_ms.push_back(0);
    record.queue_ms.push_back(std::max(0.0, begins - arrived));
    record.device_ms.push_back(latency_ms);
    record.encode_ms.push_back(0);
    record.latency_ms.push_back(record.queue_ms.back() + latency_ms);
    record.seconds = (arrived + record.latency_ms.back()) / 1e3;
  }
  record.statistics = summarize_latency(record.latency_ms);
  result.latency = std::move(record);
  return result;
}

TEST(Decide, RecommendsNoStreamThatFramesOverrun) {
  const auto decide_on = [](const Result& stream) {
    const Dataset dataset = make_dataset({make_file({stream})});
    const View view = views_of(dataset).front();
    const Decision d = decide(dataset, view, 0.01);
    EXPECT_EQ(d.deploy.has_value(), d.overrun.empty());
    return d.overrun;
  };
  EXPECT_THAT(decide_on(paced_stream({"arena"}, 80, 80)), ElementsAre("arena (12.5 of 50.0 frames a second)"));
  EXPECT_THAT(decide_on(paced_stream({"arena"}, 20, 400)), testing::IsEmpty()) << "late, but no later with each frame";
  Result drops = paced_stream({"arena"}, 80, 80);
  drops.latency->drops = true;
  EXPECT_THAT(decide_on(drops), testing::IsEmpty()) << "what it shows is of the latency that it says";
}

TEST(Decide, TakesNoneThatAnotherIsKnownToBeFasterThan) {
  // The third is the fastest, but not certainly, because its times vary widely; the first two do differ.
  const Dataset dataset = make_dataset(
      {make_file({make_result({}, twice({20, 20, 21, 20})), make_result({"arena"}, twice({12, 12, 12.1, 12})),
                  make_result({"arena", "fuse"}, twice({10.9, 11, 11, 11.1})),
                  make_result({"arena", "fuse", "graph"}, twice({9, 10.5, 10.5, 14}))})});
  EXPECT_EQ(decide(dataset, views_of(dataset).front(), 0.01).deploy->measurement->label, "arena+fuse");
}

TEST(Decide, PrefersTheRunThatIsDrawnToAnotherDaysLuck) {
  const std::vector<Result> run = {make_result({}, twice({20, 20, 21, 20})),
                                   make_result({"arena"}, twice({14, 14, 14, 14})),
                                   make_result({"arena", "fuse"}, twice({10, 12, 11, 10}))};
  const auto deployed = [&](std::vector<double> later_ms) {
    const Dataset dataset =
        make_dataset({make_file(run), make_file({make_result({"arena", "fuse", "graph"}, twice(std::move(later_ms)))},
                                                "2026-02-02T00:00:00Z")});
    return decide(dataset, views_of(dataset).front(), 0.01).deploy->measurement->label;
  };
  EXPECT_EQ(deployed({10, 11, 12, 9}), "arena+fuse");
  EXPECT_EQ(deployed({5, 5, 5, 5}), "arena+fuse+graph");
}

TEST(Decide, CountsSamplesWherePassesWereTimed) {
  const Subject pass{.kind = SubjectKind::kModel, .name = "tiny-dit", .request = {{"pass", "forward"}, {"batch", 20}}};
  const Dataset dataset = make_dataset(
      {make_file({make_result({}, {10, 10}, pass, "forward"), make_result({"fuse"}, {5, 5}, pass, "forward")})});
  const Decision d = decide(dataset, views_of(dataset).front(), 0.01);
  EXPECT_EQ(d.deploy->measurement->time().unit, "forward pass");
  EXPECT_EQ(d.deploy->per_second, 4000) << "20 in each pass";
  EXPECT_EQ(d.deploy->request_ms, 5);
}

TEST(Decide, RecommendsNothingWhoseQualityNobodyKnows) {
  const Dataset dataset = make_dataset({make_file({make_result({"bf16"}, {10, 10}), make_result({"int8"}, {5, 5})})});
  const Decision d = decide(dataset, views_of(dataset).front(), 0.01);
  EXPECT_FALSE(d.deploy);
  EXPECT_EQ(d.faster_unknown->measurement->label, "int8");
  EXPECT_THAT(d.adoption, SizeIs(0));
}

TEST(Decide, DoesNotBlameAnExactSwitchForWhatIsBelowIt) {
  std::vector<Result> results = {make_result({}, {100, 100}), make_result({"int8"}, {50, 50}),
                                 make_result({"int8", "arena"}, {40, 40})};
  for (std::size_t i = 1; i < results.size(); ++i) test::set_quality(results[i], "psnr_db", 20);
  const Dataset dataset = make_dataset({make_file(results)});
  const Decision d = decide(dataset, views_of(dataset).front(), 0.01);
  ASSERT_THAT(d.adoption, SizeIs(2));
  EXPECT_THAT(d.adoption[0].reason, testing::StartsWith("beyond the quality limit: "));
  EXPECT_EQ(d.adoption[1].reason, "exact, but measured only on top of switches that are beyond the quality limit");
}

TEST(Decide, ReasonOfASlowerSwitchThatIsAdoptedIsTheRecommendedConfiguration) {
  // fuse is slower than arena alone, but the fastest configuration was measured only with it.
  const std::vector<Result> results = {make_result({}, twice({20, 20, 20, 20})),
                                       make_result({"arena"}, twice({10, 10, 10, 10})),
                                       make_result({"arena", "fuse"}, twice({12, 12, 12, 12})),
                                       make_result({"arena", "fuse", "graph"}, twice({5, 5, 5, 5}))};
  const Dataset dataset = make_dataset({make_file(results)});
  const Decision d = decide(dataset, views_of(dataset).front(), 0.01);
  ASSERT_THAT(d.adoption, SizeIs(3));
  EXPECT_EQ(d.adoption[0].reason, "faster");
  EXPECT_TRUE(d.adoption[1].adopt);
  EXPECT_EQ(d.adoption[1].reason, "part of the recommended configuration; over the one before it: slower");
  EXPECT_EQ(d.adoption[2].reason, "faster");
}

// Invariant: the adopted switches are the deployed ones, for any measurements.
TEST(Decide, NeverContradictsItself) {
  std::mt19937 random(7);
  const std::vector<std::string> order = {"arena", "fuse", "bf16", "steps=5"};
  std::size_t left_out = 0;
  for (int round = 0; round < 200; ++round) {
    const auto trials = [&] {
      std::vector<double> ms(6);
      const double level = std::uniform_real_distribution(50.0, 100.0)(random);
      for (double& one : ms) one = level * std::lognormal_distribution(0.0, 0.05)(random);
      return ms;
    };
    std::vector<Result> results = {make_result({}, trials())};
    for (std::size_t n = 1; n <= order.size(); ++n) {
      results.push_back(make_result({order.begin(), order.begin() + static_cast<std::ptrdiff_t>(n)}, trials()));
      if (n > 1) results.push_back(make_result({order[n - 1]}, trials()));
    }
    for (Result& result : results)
      if (random() % 2 == 0) test::set_quality(result, "psnr_db", std::uniform_real_distribution(30.0, 50.0)(random));
    const Dataset dataset = make_dataset({make_file(results)});
    const Decision d = decide(dataset, views_of(dataset).front(), 0.01);
    ASSERT_TRUE(d.deploy) << "the baseline is always allowed";
    EXPECT_LE(d.deploy->loss->at_worst, 0.01);
    EXPECT_THAT(d.beyond_limit, Not(Contains(d.deploy->measurement->label)));
    EXPECT_THAT(d.unknown, Not(Contains(d.deploy->measurement->label)));
    std::vector<std::string> adopted;
    ASSERT_THAT(d.adoption, SizeIs(order.size()));
    for (const Adoption& one : d.adoption) {
      if (one.adopt) adopted.insert(adopted.end(), one.switches.begin(), one.switches.end());
      EXPECT_FALSE(one.adopt && one.reason == "slower");
      left_out += one.adopt ? 0 : 1;
    }
    EXPECT_EQ(adopted, d.deploy->measurement->switches());
  }
  EXPECT_GT(left_out, 0U);
}

TEST(QualityLoss, IsTheWorstOfAllThatIsMeasured) {
  std::vector<Result> results = {make_result({}, {1}), make_result({"bf16"}, {1}), make_result({"int8"}, {1}),
                                 make_result({"arena"}, {1}), make_result({"steps=5"}, {1})};
  test::set_quality(results[0], "accuracy", 0.98);
  test::set_quality(results[1], "psnr_db", 60);
  test::set_quality(results[1], "accuracy", 0.97);
  test::set_quality(results[2], "relative_l2", 0.05);
  test::set_quality(results[3], "psnr_db", {}, {}, "identical");
  test::set_quality(results[4], "psnr_db", 20);
  test::set_quality(results[4], "accuracy", 0.975);
  const Dataset dataset = make_dataset({make_file(results)});
  const auto& m = dataset.measurements();
  const auto loss = [&](std::size_t i) { return quality_loss(dataset, dataset.scenarios().front(), m[i], 0.01); };
  EXPECT_EQ(loss(0)->basis, "the baseline itself");
  EXPECT_NEAR(loss(1)->at_worst, 0.01, 1e-12);
  EXPECT_EQ(loss(1)->basis, "accuracy 97.0% against 98.0% of the baseline");
  EXPECT_EQ(loss(1)->limit, "at least 97.0%");
  EXPECT_EQ(loss(2)->at_worst, 0.05);
  EXPECT_EQ(loss(3)->basis, "only exact switches");
  EXPECT_NEAR(loss(4)->at_worst, 0.005, 1e-12) << "other pictures need not be near";
}

TEST(QualityLoss, TakesTheJudgesWordFromAnotherRunOfTheSameConfiguration) {
  std::vector<Result> timed = {make_result({}, {10, 10}), make_result({"bf16"}, {5, 5}), make_result({"fuse"}, {8, 8})};
  test::set_quality(timed[1], "psnr_db", 60);  // loses 0.001
  std::vector<Result> judged = {make_result({}, {10, 10}), make_result({"bf16"}, {5, 5})};
  test::set_quality(judged[0], "accuracy", 0.98);
  test::set_quality(judged[1], "accuracy", 0.978);
  const Dataset dataset = make_dataset({make_file(timed), make_file(judged)});
  const Decision d = decide(dataset, views_of(dataset).front(), 0.01);
  EXPECT_EQ(d.deploy->measurement->label, "bf16");
  EXPECT_EQ(d.deploy->loss->basis, "accuracy 97.8% against 98.0% of the baseline");
}

TEST(QualityLoss, TakesTheErrorOfAForwardPassUnderTheSameLossySwitches) {
  const Subject pass = {.name = "tiny-dit", .request = {{"pass", "forward"}, {"batch", 1}, {"image_tokens", 256}}};
  const auto judged = [&](std::vector<std::string> switches, double error) {
    Result result = make_result(std::move(switches), {1}, pass, "forward");
    result.trials.clear();
    test::set_quality(result, "relative_l2", error);
    return result;
  };
  const std::vector<Result> timed = {
      make_result({}, {10, 10}), make_result({"arena"}, {9, 9}), make_result({"arena", "bf16", "graph"}, {5, 5}),
      make_result({"arena", "bf16", "fp8", "graph"}, {3, 3}), make_result({"bf16", "steps=5"}, {5, 5})};
  const std::vector<Result> errors = {judged({"baseline"}, 0.02), judged({"lossless", "bf16"}, 0.025),
                                      judged({"lossless", "bf16", "fp8"}, 0.09)};
  const Dataset dataset = make_dataset({make_file(timed), make_file(errors)});
  const Decision d = decide(dataset, views_of(dataset).front(), 0.01);
  EXPECT_EQ(d.deploy->measurement->label, "arena+bf16+graph");
  EXPECT_NEAR(d.deploy->loss->at_worst, 0.005, 1e-12);
  EXPECT_EQ(d.deploy->loss->basis, "relative L2 error 0.0250 of a forward pass, 0.0200 of the baseline");
  EXPECT_EQ(d.deploy->loss->limit, "at most 0.0300");
  EXPECT_EQ(d.faster_beyond->measurement->label, "arena+bf16+fp8+graph");
  EXPECT_EQ(d.unknown, std::vector<std::string>{"bf16+steps=5"}) << "fewer steps are no matter of one pass";

  std::vector<Result> of_f64 = errors;
  for (Result& result : of_f64) result.configuration.baseline_dtype = "f64";
  const Dataset apart = make_dataset({make_file(timed), make_file(of_f64)});
  EXPECT_EQ(decide(apart, views_of(apart).front(), 0.01).deploy->measurement->label, "arena");
}

TEST(LossySwitches, AreThoseThatDoNotComputeTheSame) {
  Configuration configuration;
  configuration.applied = {"graph", "steps=4", "fp8", "arena", "lossless", "baseline", "auto"};
  EXPECT_EQ(lossy_switches(configuration), (std::vector<std::string>{"auto", "fp8", "steps=4"}));
}

TEST(ViewsOf, PutsProfilesToTheWorkThatTheyTellOf) {
  Subject fewer_steps = test::denoise_subject(), other = fewer_steps;
  fewer_steps.request["steps"] = 2;
  other.request["token_rows"] = 32;
  ResultFile profiles = make_file({make_result({}, {3}, fewer_steps), make_result({}, {3}, other)});
  for (Result& result : profiles.results) result.profile = ProfileRecord{};
  const Dataset dataset = make_dataset({make_file(test::ladder_results()), profiles});
  const std::vector<View> views = views_of(dataset);
  ASSERT_THAT(views, SizeIs(2));
  EXPECT_THAT(views[0].scenarios, SizeIs(1));
  ASSERT_THAT(views[0].profiled, SizeIs(1));
  EXPECT_EQ(request_number(views[0].profiled.front()->subject, "steps"), 2);
  EXPECT_THAT(views[1].profiled, SizeIs(0)) << "of another size";
  EXPECT_THAT(views[0].all(), SizeIs(2));
}

TEST(ViewsOf, TellsApartWhatWouldHaveOneName) {
  Subject guided = test::denoise_subject(), other = guided;
  guided.request["guidance_scale"] = 2;
  const Dataset dataset = make_dataset({make_file({make_result({}, {10}, guided), make_result({}, {10}, other)})});
  const std::vector<View> views = views_of(dataset);
  ASSERT_THAT(views, SizeIs(2));
  EXPECT_NE(views[0].title, views[1].title);
}

TEST(ViewsOf, PutsBatchSizesTogetherAndKernelsLast) {
  const Dataset dataset = make_dataset(
      {test::kernel_file(), make_file({make_result({}, {10}, batch_of_images(1))}),
       make_file({make_result({}, {10}, batch_of_images(2)), make_result({"arena"}, {10}, batch_of_images(2))})});
  const std::vector<View> views = views_of(dataset);
  ASSERT_THAT(views, SizeIs(2));
  EXPECT_THAT(views[0].scenarios, SizeIs(2));
  EXPECT_EQ(views[0].title, "tiny-dit, 16x16 image tokens, 10 steps, batches of 1 and 2");
  EXPECT_TRUE(views[1].is_of_kernels);
  EXPECT_THAT(views[1].scenarios, SizeIs(5));
}

TEST(Price, TellsWhatAThousandCost) {
  EXPECT_NEAR(Price::parse("2.50/h").of_thousand(100), 0.0694, 1e-4);
  const Price price = Price::parse("$36/h");
  EXPECT_EQ(price.label(price.of_thousand(100)), "$1.00");
  for (const char* wrong : {"", "2.50", "/h", "0/h", "-1/h", "2,50/h", "2.5 /h", "nan/h", "1e999/h"})
    EXPECT_THROW((void)Price::parse(wrong), Error) << wrong;
}

}  // namespace
}  // namespace headroom
