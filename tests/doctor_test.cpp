// `headroom doctor` on this machine, whatever state it is in, with faults that a child process can be given.

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "backends/cpu/cpu_info.hpp"
#include "base/text/json.hpp"
#include "program_fixture.hpp"

namespace headroom {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class DoctorCommand : public ProgramTest {
 protected:
  /// The report of `headroom doctor ARGUMENTS --json` behind a prefix such as "taskset -c 0 ".
  [[nodiscard]] nlohmann::json report(const std::string& arguments, const std::string& prefix = "") {
    const std::string device = arguments.starts_with("--trace") ? "" : "--device cpu ";
    outcome_ = run(prefix + program() + " doctor " + device + arguments + " --json");
    return parse_json(outcome_.out, outcome_.err);
  }
  [[nodiscard]] static std::vector<std::string> ids_in(const nlohmann::json& report) {
    std::vector<std::string> ids;
    for (const nlohmann::json& finding : report.at("findings")) ids.push_back(finding.at("id"));
    return ids;
  }
  [[nodiscard]] static nlohmann::json finding_in(const nlohmann::json& report, const std::string& id) {
    for (const nlohmann::json& finding : report.at("findings"))
      if (finding.at("id") == id) return finding;
    ADD_FAILURE() << id << " is not found in " << report.at("findings").dump();
    return {};
  }
  [[nodiscard]] bool agrees_with_schema(const nlohmann::json& document) const {
    write_json(file("report.json"), document);
    return run("python3 -W ignore -c 'import json, sys, jsonschema; jsonschema.validate(json.load(open(sys.argv[1])), "
               "json.load(open(sys.argv[2])))' " +
               file("report.json") + " " + (source_dir(kSourceDir) / "docs/doctor.schema.json").string())
               .code == 0;
  }
  Outcome outcome_;
};

TEST_F(DoctorCommand, ReportsThisMachine) {
  const nlohmann::json found = report("--quick");
  EXPECT_TRUE(agrees_with_schema(found));
  std::vector<std::string> names;
  for (const nlohmann::json& fact : found.at("facts")) names.push_back(fact.at("name"));
  EXPECT_THAT(names, AllOf(Contains("CPUs"), Contains("vector units"), Contains("available"), Contains("oneDNN")));
  EXPECT_THAT(names, Not(Contains("copies"))) << "--quick measures nothing";
}

TEST_F(DoctorCommand, MeasuresCopies) {
  static_cast<void>(report("--threads 1 --fail-on library-old"));
  EXPECT_EQ(outcome_.code, 0) << outcome_.err;
  EXPECT_THAT(outcome_.out, HasSubstr("GB/s read and written by all threads"));
}

TEST_F(DoctorCommand, FindsOneCoreForEightThreads) {
  if (::sysconf(_SC_NPROCESSORS_ONLN) == 1) GTEST_SKIP() << "the machine has one CPU";
  const nlohmann::json finding =
      finding_in(report("--quick --threads 8", "taskset -c $(taskset -cp $$ | grep -oE '[0-9]+' | tail -1) "),
                 "threads-over-cpus");
  EXPECT_EQ(outcome_.code, 3);
  EXPECT_EQ(finding.at("severity"), "wrong");
  EXPECT_EQ(finding.at("cost").at("factor"), std::min(8L, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

TEST_F(DoctorCommand, FindsWhatTheEnvironmentSets) {
  EXPECT_EQ(finding_in(report("--quick", "OMP_WAIT_POLICY=active "), "omp-spinning").at("mend"),
            "unset OMP_WAIT_POLICY");
  EXPECT_EQ(finding_in(report("--quick", "ONEDNN_MAX_CPU_ISA=SSE41 "), "isa-unused").at("mend"),
            "unset ONEDNN_MAX_CPU_ISA");
  EXPECT_THAT(ids_in(report("--quick")), Not(Contains("omp-spinning"))) << "Headroom sets GOMP_SPINCOUNT itself";
}

TEST_F(DoctorCommand, FindsVectorUnitsThatAreLeftOut) {
  if (detect_cpu_isa() == CpuIsa::kPortable) GTEST_SKIP() << "this CPU has no vector units to leave out";
  EXPECT_EQ(finding_in(report("--quick --cpu-isa portable"), "isa-unused").at("mend"), "leave out --cpu-isa portable");
}

TEST_F(DoctorCommand, ExitsByTheChecksThatAreNamed) {
  const std::string omp = "OMP_WAIT_POLICY=active " + program() + " doctor --device cpu --quick --fail-on ";
  EXPECT_EQ(run(omp + "omp-spinning").code, 3);
  EXPECT_EQ(run(omp + "gpu-ecc-off").code, 0);
  EXPECT_EQ(run(omp + "gpu-ecc-off --fail-on omp-spinning").code, 3);
  const Outcome unknown = run(omp + "omp-spining");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("--fail-on: 'omp-spining' is no check; did you mean 'omp-spinning'?"));
  EXPECT_THAT(headroom("doctor --quick --fail-on zzz").err,
              HasSubstr("'zzz' is no check; `headroom doctor --list` lists them"));
  const auto refused = [&](const std::string& arguments) {
    const Outcome outcome = headroom("doctor " + arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    return outcome.err;
  };
  EXPECT_THAT(refused("--quick --fail-on scores-in-memory"), HasSubstr("a check of a model: give MODEL"));
  EXPECT_THAT(refused("--quick --fail-on trace-syncs"), HasSubstr("a check of a trace: give --trace FILE"));
  EXPECT_THAT(refused("--trace x.json --fail-on steal"), HasSubstr("a check that --trace does not make"));
  EXPECT_THAT(refused("--trace x.json --threads 7"), HasSubstr("--threads"));
  EXPECT_THAT(refused("--list --json"), HasSubstr("--json"));
}

TEST_F(DoctorCommand, LooksAtAModelsPlanWithoutRunningIt) {
  const nlohmann::json found = report("fashion-flux --quick --opt arena --fail-on scores-in-memory");
  EXPECT_EQ(outcome_.code, 3);
  EXPECT_TRUE(agrees_with_schema(found));
  EXPECT_EQ(finding_in(found, "scores-in-memory").at("mend"), "--opt arena,flash");
  EXPECT_FALSE(found.at("work").contains("step_ms"));
  static_cast<void>(report("fashion-flux --quick --opt arena,flash --fail-on scores-in-memory"));
  EXPECT_EQ(outcome_.code, 0) << outcome_.err;
}

TEST_F(DoctorCommand, TellsWhereTheTimeOfAModelGoes) {
  const Outcome text = headroom(
      "doctor fashion-flux --device cpu --threads 1 --token-rows 2 --token-columns 2 --steps 2 "
      "--run-switches 1 --on h100 --fail-on library-old --quiet");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out,
              AllOf(HasSubstr("model files"), HasSubstr("\na step takes "), ContainsRegex("\nproducts +[0-9]"),
                    ContainsRegex("\nflash +on +[0-9.]+x"), ContainsRegex("\nh100 +[0-9]"),
                    HasSubstr("attention: 8 of 8 layers tile by tile"), Not(HasSubstr(" was not run: "))));
  const nlohmann::json found = report("tests/goldens/vae/tiny --random-weights 1 --pass decode --height 64 --width 64",
                                      "cd " + source_dir(kSourceDir).string() + " && ");
  EXPECT_TRUE(agrees_with_schema(found));
  EXPECT_GT(found.at("work").at("pass_ms"), 0);
  int measured = 0;
  for (const nlohmann::json& one : found.at("work").at("predictions")) measured += one.contains("measured") ? 1 : 0;
  EXPECT_EQ(measured, 3);
}

TEST_F(DoctorCommand, PredictsAPlanOnOtherCardsByTheirDataSheets) {
  const nlohmann::json found = report("fashion-flux --quick --opt arena,flash --on h100 --on 4090");
  EXPECT_TRUE(agrees_with_schema(found));
  const nlohmann::json& on = found.at("work").at("on");
  ASSERT_EQ(on.size(), 2U);
  EXPECT_EQ(on[0].at("card"), "h100");
  EXPECT_GT(on[0].at("ms"), on[0].at("least_ms"));
  EXPECT_TRUE(on[0].at("fits"));
  EXPECT_GT(on[1].at("least_ms"), on[0].at("least_ms")) << "a third of the bandwidth";
  const Outcome unknown = headroom("doctor fashion-flux --quick --on h10");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("--on: 'h10' is no known card, there are b200, "));
}

TEST_F(DoctorCommand, ReadsATraceOfPytorch) {
  const std::string traces = (source_dir(kSourceDir) / "tests/doctor/traces").string();
  const nlohmann::json found = report("--trace " + traces + "/fp8_storage.json.gz");
  EXPECT_EQ(outcome_.code, 3);
  EXPECT_TRUE(agrees_with_schema(found));
  EXPECT_EQ(ids_in(found), (std::vector<std::string>{"trace-fp8-storage", "trace-evidence"}));
  EXPECT_EQ(headroom("doctor --trace " + traces + "/clean.json.gz").code, 4) << "it has no work of a GPU";
  EXPECT_EQ(headroom("doctor fashion-flux --trace " + traces + "/clean.json.gz").code, 2);
  const Outcome none = headroom("doctor --trace " + file("none.json"));
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr("none.json"));
}

TEST_F(DoctorCommand, OptionsOfAModelNeedOne) {
  const Outcome without = headroom("doctor --quick --opt fast");
  EXPECT_EQ(without.code, 2);
  EXPECT_THAT(without.err, AllOf(HasSubstr("--opt"), HasSubstr("MODEL")));
}

}  // namespace
}  // namespace headroom
