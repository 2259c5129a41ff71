#include "measure/results/chrome_trace.hpp"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

namespace headroom {
namespace {

nlohmann::json events_of(std::vector<TraceSlice> slices, const std::string& phase) {
  nlohmann::json found = nlohmann::json::array();
  const nlohmann::json trace = nlohmann::json::parse(to_chrome_trace(std::move(slices)));
  for (const nlohmann::json& event : trace.at("traceEvents"))
    if (event.at("ph") == phase) found.push_back(event);
  return found;
}

TEST(ChromeTrace, TellsEachSliceInMicrosecondsFromTheFirst) {
  const nlohmann::json slices = events_of({{.name = "late", .track = "a", .start_ns = 5500, .end_ns = 7000},
                                           {.name = "gemm \"x\"",
                                            .track = "a",
                                            .start_ns = 2000,
                                            .end_ns = 5250,
                                            .details = {{"node", "blocks.0.attn"}, {"flops", 2e9}}}},
                                          "X");
  ASSERT_EQ(slices.size(), 2U);
  EXPECT_EQ(slices[0].at("name"), "gemm \"x\"");
  EXPECT_EQ(slices[0].at("ts"), 0.0);
  EXPECT_EQ(slices[0].at("dur"), 3.25);
  EXPECT_EQ(slices[0].at("args").at("node"), "blocks.0.attn");
  EXPECT_TRUE(slices[0].at("args").at("flops").is_number()) << "viewers sum numbers";
  EXPECT_EQ(slices[0].at("args").at("flops"), 2e9);
  EXPECT_EQ(slices[1].at("ts"), 3.5);
  EXPECT_EQ(slices[1].at("dur"), 1.5);
}

TEST(ChromeTrace, GivesEachTrackItsNameAndItsSlices) {
  const std::vector<TraceSlice> slices = {{.name = "x", .track = "stream 7", .start_ns = 0, .end_ns = 9},
                                          {.name = "y", .track = "stream 9", .start_ns = 1, .end_ns = 2},
                                          {.name = "z", .track = "stream 7", .start_ns = 10, .end_ns = 11}};
  std::map<int, std::string> names;
  for (const nlohmann::json& event : events_of(slices, "M"))
    if (event.at("name") == "thread_name") names[event.at("tid")] = event.at("args").at("name");
  EXPECT_EQ(names.size(), 2U);
  const nlohmann::json events = events_of(slices, "X");
  EXPECT_EQ(names.at(events[0].at("tid")), "stream 7");
  EXPECT_EQ(names.at(events[1].at("tid")), "stream 9");
  EXPECT_EQ(names.at(events[2].at("tid")), "stream 7");
  EXPECT_EQ(events[0].at("pid"), events[1].at("pid"));
}

TEST(ChromeTrace, SlicesOfATrackNeverOverlap) {
  std::vector<TraceSlice> slices;
  for (std::int64_t i = 0; i < 200; ++i) {
    const std::int64_t start = (i * 7919) % 1000;
    slices.push_back({.name = "k", .track = i % 3 == 0 ? "a" : "b", .start_ns = start, .end_ns = start + 1 + i % 90});
  }
  slices.push_back({.name = "backwards", .track = "a", .start_ns = 50, .end_ns = 40});
  std::map<int, double> ends;
  const nlohmann::json events = events_of(slices, "X");
  ASSERT_EQ(events.size(), slices.size());
  for (const nlohmann::json& event : events) {
    double& end = ends[event.at("tid")];
    EXPECT_GE(event.at("ts").get<double>() + 1e-9, end);
    EXPECT_GE(event.at("dur").get<double>(), 0);
    end = event.at("ts").get<double>() + event.at("dur").get<double>();
  }
  EXPECT_EQ(ends.size(), 2U);
}

TEST(ChromeTrace, ASliceBeginsWhereTheOneBeforeHasEnded) {
  const nlohmann::json events = events_of({{.name = "first", .track = "a", .start_ns = 0, .end_ns = 90'000},
                                           {.name = "waits", .track = "a", .start_ns = 10'000, .end_ns = 100'000},
                                           {.name = "parallel", .track = "b", .start_ns = 20'000, .end_ns = 50'000}},
                                          "X");
  EXPECT_EQ(events[0].at("dur"), 90.0);
  EXPECT_EQ(events[1].at("ts"), 90.0);
  EXPECT_EQ(events[1].at("dur"), 10.0);
  EXPECT_EQ(events[2].at("ts"), 20.0);
  EXPECT_EQ(events[2].at("dur"), 30.0);
}

TEST(ChromeTrace, OfNothingIsATraceWithoutSlices) { EXPECT_TRUE(events_of({}, "X").empty()); }

}  // namespace
}  // namespace headroom
