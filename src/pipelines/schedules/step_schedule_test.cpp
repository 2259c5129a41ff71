#include "pipelines/schedules/step_schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <string>

namespace headroom {
namespace {

/// Predictions for a few images, and the loop's record of them.
class Loops {
 public:
  Loops(std::size_t calls, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    double level = 1;
    for (std::size_t call = 0; call < calls; ++call) {
      record_.levels.push_back(level);
      level -= 0.02 + 0.1 * std::abs(normal(random));
      record_.weights.push_back(normal(random));
      for (auto& answers : answers_) {
        answers.emplace_back();
        for (double& element : answers.back()) element = normal(random);
      }
    }
    record_products();
  }

  /// As in Heun's method, which makes two calls at one level.
  void repeat_level(std::size_t call) { record_.levels[call + 1] = record_.levels[call]; }
  void follow_a_line() {
    for (auto& answers : answers_)
      for (std::size_t call = 0; call < record_.calls(); ++call)
        for (std::size_t i = 0; i < kElements; ++i)
          answers[call][i] = 0.3 + (1.0 + static_cast<double>(i)) * record_.levels[call];
    record_products();
  }

  [[nodiscard]] const LoopRecord& record() const { return record_; }

  /// Errors by definition, in vectors: of all skipped calls together, and of each run of them alone.
  struct Errors {
    double together = 0;
    double independent = 0;
  };
  [[nodiscard]] Errors errors_of(const std::string& digits) const {
    std::vector<double> together(answers_.size() * kElements, 0.0);
    double sum = 0;
    for (std::size_t begin = 0; begin < digits.size();) {
      std::size_t end = begin + 1;  // the end of the run after the computed call `begin`
      while (end < digits.size() && digits[end] == '0') ++end;
      const std::size_t before = begin == 0 ? 0 : digits.rfind('1', begin - 1);
      double squares = 0;
      for (std::size_t image = 0; image < answers_.size(); ++image)
        for (std::size_t i = 0; i < kElements; ++i) {
          const auto& answers = answers_.at(image);
          const double distance = record_.levels[begin] - record_.levels[before];
          const double slope = distance == 0 ? 0 : (answers[begin][i] - answers[before][i]) / distance;
          double error = 0;
          for (std::size_t skipped = begin + 1; skipped < end; ++skipped) {
            const double made = answers[begin][i] + slope * (record_.levels[skipped] - record_.levels[begin]);
            error += record_.weights[skipped] * (answers[skipped][i] - made);
          }
          squares += error * error;
          together[image * kElements + i] += error;
        }
      sum += squares;
      begin = end;
    }
    const auto images = static_cast<double>(answers_.size());
    return {.together = std::sqrt(std::inner_product(together.begin(), together.end(), together.begin(), 0.0) / images),
            .independent = std::sqrt(sum / images)};
  }

 private:
  static constexpr std::size_t kElements = 5;

  void record_products() {
    const std::size_t calls = record_.calls();
    record_.products.assign(calls * calls, 0);
    for (const auto& answers : answers_)
      for (std::size_t a = 0; a < calls; ++a)
        for (std::size_t b = 0; b < calls; ++b)
          for (std::size_t i = 0; i < kElements; ++i)
            record_.products[a * calls + b] += answers[a][i] * answers[b][i] / static_cast<double>(answers_.size());
  }

  std::array<std::vector<std::array<double, kElements>>, 3> answers_;
  LoopRecord record_;
};

std::vector<std::string> all_schedules(std::size_t calls, int computed) {
  std::vector<std::string> all;
  for (unsigned bits = 0; bits < 1U << (calls - 1); ++bits) {
    if (std::popcount(bits) != computed - 1) continue;
    std::string digits = "1";
    for (std::size_t i = 0; i + 1 < calls; ++i) digits += (bits >> i & 1U) != 0 ? '1' : '0';
    all.push_back(digits);
  }
  return all;
}

TEST(StepSchedule, ErrorsAreTheirDefinition) {
  Loops loops(8, 1);
  loops.repeat_level(2);
  for (int computed = 1; computed <= 8; ++computed)
    for (const std::string& digits : all_schedules(8, computed))
      ASSERT_NEAR(error_of_schedule(loops.record(), digits), loops.errors_of(digits).together, 1e-6) << digits;
}

TEST(StepSchedule, OfIndependentErrorsAreTheBestOfAll) {
  for (std::size_t calls = 2; calls <= 11; ++calls) {
    Loops loops(calls, static_cast<unsigned>(calls));
    if (calls % 3 == 0) loops.repeat_level(calls / 2);
    const std::vector<StepSchedule> found = find_independent_schedules(loops.record());
    ASSERT_EQ(found.size(), calls - 1);
    for (std::size_t computed = 1; computed < calls; ++computed) {
      double least = INFINITY;
      for (const std::string& digits : all_schedules(calls, static_cast<int>(computed)))
        least = std::min(least, loops.errors_of(digits).independent);
      const StepSchedule& schedule = found[computed - 1];
      EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(schedule.digits, '1')), computed);
      EXPECT_NEAR(schedule.error, least, 1e-9) << calls << ' ' << schedule.digits;
      EXPECT_NEAR(loops.errors_of(schedule.digits).independent, least, 1e-9) << calls << ' ' << schedule.digits;
    }
  }
}

/// A local optimum: no worse than the start and than any schedule with one computed call moved between its neighbors.
TEST(StepSchedule, OfErrorsThatCancelAreNoneTheBetterForOneMove) {
  for (std::size_t calls = 2; calls <= 10; ++calls) {
    const Loops loops(calls, 20 + static_cast<unsigned>(calls));
    const std::vector<StepSchedule> independent = find_independent_schedules(loops.record());
    const std::vector<StepSchedule> found = find_schedules(loops.record());
    ASSERT_EQ(found.size(), calls - 1);
    for (std::size_t computed = 1; computed < calls; ++computed) {
      const StepSchedule& schedule = found[computed - 1];
      const auto together = [&](const std::string& digits) { return loops.errors_of(digits).together; };
      EXPECT_NEAR(schedule.error, together(schedule.digits), 1e-6);
      EXPECT_LE(schedule.error, together(independent[computed - 1].digits) + 1e-6);
      EXPECT_LE(schedule.error, together(spread_schedule(computed, calls)) + 1e-6);
      for (const std::string& other : all_schedules(calls, static_cast<int>(computed))) {
        std::size_t moved = 0;
        for (std::size_t call = 0; call < calls; ++call) moved += other[call] != schedule.digits[call] ? 1 : 0;
        const auto first = static_cast<std::size_t>(std::ranges::mismatch(other, schedule.digits).in1 - other.begin());
        const std::size_t last =
            calls - 1 -
            static_cast<std::size_t>(std::mismatch(other.rbegin(), other.rend(), schedule.digits.rbegin()).first -
                                     other.rbegin());
        const bool is_between = moved == 2 && std::ranges::count(other.substr(first, last + 1 - first), '1') == 1;
        if (is_between) {
          EXPECT_GE(together(other), schedule.error - 1e-6) << schedule.digits << ' ' << other;
        }
      }
    }
  }
}

TEST(StepSchedule, CandidatesAreOfEveryKindOnceTheEvenOneFirst) {
  const Loops loops(9, 5);
  std::vector<double> feedback;
  for (std::size_t call = 0; call < 9; ++call) feedback.push_back(4.0 / (1.0 + static_cast<double>(call)));
  LoopRecord fed_back = loops.record();
  for (std::size_t call = 0; call < 9; ++call) fed_back.weights[call] *= feedback[call];
  const auto plain = find_independent_schedules(loops.record()), with_feedback = find_independent_schedules(fed_back),
             together = find_schedules(loops.record()), together_with_feedback = find_schedules(fed_back);
  const std::vector<std::vector<std::string>> candidates = candidate_schedules(loops.record(), feedback);
  ASSERT_EQ(candidates.size(), 8);
  std::size_t several = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(candidates[i].front(), spread_schedule(i + 1, 9));
    std::set<std::string> expected = {spread_schedule(i + 1, 9), plain[i].digits, with_feedback[i].digits,
                                      together[i].digits, together_with_feedback[i].digits};
    EXPECT_EQ(std::set<std::string>(candidates[i].begin(), candidates[i].end()), expected);
    EXPECT_EQ(candidates[i].size(), expected.size());
    several += expected.size() > 2 ? 1 : 0;
  }
  EXPECT_GT(several, 2);
}

/// Two calls determine a straight line.
TEST(StepSchedule, NothingIsLostOnAStraightLine) {
  Loops loops(9, 3);
  loops.follow_a_line();
  for (const std::vector<StepSchedule>& found :
       {find_independent_schedules(loops.record()), find_schedules(loops.record())}) {
    EXPECT_GT(found[0].error, 0.01);
    EXPECT_NEAR(found[1].error, 0, 1e-6);
    EXPECT_EQ(found[1].digits.substr(0, 2), "11");
  }
}

}  // namespace
}  // namespace headroom
