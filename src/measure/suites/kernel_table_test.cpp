#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "measure/suites/kernel_suite.hpp"

namespace headroom {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// A copy that takes these times, over this floor.
ResultFile copies(const std::vector<double>& trials_ms, double floor_ms) {
  Result result;
  result.id = result.name = "copy";
  result.subject = {.kind = SubjectKind::kKernel, .name = "copy", .request = {{"bytes", 1'000'000}}};
  result.configuration.device = "cpu";
  result.trials = {make_series("launch", Trials{.wall_ms = trials_ms})};
  result.floor = FloorRecord{.ms = floor_ms, .of = "copy"};
  ResultFile file;
  file.results = {std::move(result)};
  return file;
}

TEST(KernelTable, MarksWhatIsFasterThanItsFloor) {
  const std::vector<double> six(6, 1.0);
  EXPECT_THAT(to_kernel_table(copies(six, 0.5)).text(), AllOf(HasSubstr("2.00x"), Not(HasSubstr("below"))));
  EXPECT_THAT(to_kernel_table(copies(six, 1.02)).text(), HasSubstr("1.00x")) << "within the error of a floor";
  EXPECT_THAT(to_kernel_table(copies(six, 2)).text(),
              AllOf(HasSubstr("1 row is faster than the floor (`below`)"), Not(HasSubstr("0.500x"))));
}

TEST(KernelTable, SaysThatOtherWorkDisturbedIt) {
  ResultFile file = copies(std::vector<double>(6, 0.5), 1);
  Conditions& conditions = file.results.front().trials.front().conditions;
  conditions.waited_ms.assign(6, 0.04);  // of a trial of two launches
  EXPECT_THAT(to_kernel_table(file).text(), AllOf(Not(HasSubstr("unsettled")), HasSubstr("(--rounds)")));
  conditions.waited_ms.assign(6, 0.2);
  EXPECT_THAT(to_kernel_table(file).text(),
              AllOf(HasSubstr("1 of 1 times are unsettled"), HasSubstr("waited for one for 20% of a typical launch"),
                    HasSubstr("measure again on a quiet machine"), Not(HasSubstr("(--rounds)"))));
}

TEST(KernelTable, NamesNoOptionThatItsCommandRefuses) {
  const std::string few = to_kernel_table(copies({1, 1, 1}, 0.5)).text();
  EXPECT_THAT(few, AllOf(HasSubstr("3 trials give no 95% interval, 6 would"), Not(HasSubstr("--trials"))));
}

}  // namespace
}  // namespace headroom
