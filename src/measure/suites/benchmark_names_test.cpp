#include "measure/suites/benchmark_names.hpp"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "base/switches.hpp"

namespace headroom {
namespace {

Machine amx_machine() {
  Machine machine;
  machine.cpu_isa = "amx";
  return machine;
}

/// As `bench` writes it.
Result result_of(const std::string& opt, int batch = 1) {
  Result result;
  result.subject = {.kind = SubjectKind::kModel, .name = "tiny-dit", .request = {{"batch", batch}}};
  result.configuration.device = "cpu";
  result.configuration.asked =
      SwitchSet::parse(opt).for_target({.device = DeviceKind::kCpu, .cpu_isa = CpuIsa::kAmx}).names();
  result.id = result.name = opt == "baseline" ? opt : fmt::format("{}", fmt::join(result.configuration.asked, ","));
  return result;
}

TEST(BenchmarkNames, CallPresetsByTheirNames) {
  ResultFile file;
  file.machine = amx_machine();
  file.results = {result_of("baseline"), result_of("lossless,bf16"), result_of("arena,fuse")};
  BenchmarkNames names;
  names.add(file);
  EXPECT_EQ(names.of(file.machine, file.results[0]), "tiny-dit baseline");
  EXPECT_EQ(names.of(file.machine, file.results[1]), "tiny-dit lossless+bf16");
  EXPECT_EQ(names.of(file.machine, file.results[2]), "tiny-dit arena+fuse");
}

TEST(BenchmarkNames, TellWorksApartByWhatDiffersInTheirRequests) {
  ResultFile file;
  file.machine = amx_machine();
  file.results = {result_of("lossless", 1), result_of("lossless", 20), result_of("baseline", 20)};
  BenchmarkNames names;
  names.add(file);
  EXPECT_EQ(names.of(file.machine, file.results[0]), "tiny-dit lossless (batch 1)");
  EXPECT_EQ(names.of(file.machine, file.results[1]), "tiny-dit lossless (batch 20)");
  EXPECT_EQ(names.of(file.machine, file.results[2]), "tiny-dit baseline");
}

TEST(BenchmarkNames, KeepTheNamesOfKernelsAndOfOtherPrograms) {
  ResultFile file;
  Result kernel;
  kernel.name = "linear, bf16";
  kernel.subject = {.kind = SubjectKind::kKernel, .name = "linear", .request = nlohmann::json::object()};
  Result peer = result_of("arena");
  peer.name = "torch.compile, bf16";
  peer.source.name = "pytorch";
  file.results = {kernel, peer};
  BenchmarkNames names;
  names.add(file);
  EXPECT_EQ(names.of(file.machine, file.results[0]), "linear, bf16");
  EXPECT_EQ(names.of(file.machine, file.results[1]), "tiny-dit torch.compile, bf16 by pytorch");
}

}  // namespace
}  // namespace headroom
