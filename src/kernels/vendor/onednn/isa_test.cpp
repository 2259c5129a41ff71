#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "backends/cpu/cpu_info.hpp"

namespace headroom {
namespace {

/// The tests of all oneDNN kernels, run again by this program in a process whose oneDNN is limited to `isa`: oneDNN
/// reads the limit once, when it is first used. Returns the output of the process; its exit status is in `status`.
std::string run_onednn_tests(const std::string& isa, int& status) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  std::string limit = "ONEDNN_MAX_CPU_ISA=" + isa;
  std::string wait = "OMP_WAIT_POLICY=PASSIVE";  // spinning helps nobody on a machine that runs other tests
  std::vector<char*> environment{limit.data(), wait.data()};
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (!std::string(*variable).starts_with("GTEST_"))
      environment.push_back(*variable);  // filters and report files are not for it
  environment.push_back(nullptr);
  std::string name = "kernels_tests";
  std::string filter =
      "--gtest_filter=OnednnLinear.*:OnednnScaledLinear.*:OnednnMatmul.*:OnednnConv2d.*:OnednnAvgPool2d.*:"
      "*/OnednnSpecialValues.*";
  char* const arguments[] = {name.data(), filter.data(), nullptr};
  pid_t process = 0;
  EXPECT_EQ(posix_spawn(&process, "/proc/self/exe", &actions, nullptr, arguments, environment.data()), 0);
  close(ends[1]);
  posix_spawn_file_actions_destroy(&actions);
  std::string output;
  char buffer[4096];
  for (ssize_t count = 0; (count = read(ends[0], buffer, sizeof buffer)) > 0;)
    output.append(buffer, static_cast<std::size_t>(count));
  close(ends[0]);
  waitpid(process, &status, 0);
  return output;
}

class OnednnIsa : public testing::TestWithParam<const char*> {};

TEST_P(OnednnIsa, AllKernelsAgreeWithTheOracle) {
  const std::string isa = GetParam();
  const CpuIsa machine = detect_cpu_isa();
  if (isa == "AVX2" && machine < CpuIsa::kAvx2) GTEST_SKIP() << "this CPU has no AVX2";
  if (isa == "AVX512_CORE" && machine < CpuIsa::kAvx512) GTEST_SKIP() << "this CPU has no AVX-512";
  int status = -1;
  const std::string output = run_onednn_tests(isa, status);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << output;
  EXPECT_NE(output.find("[  PASSED  ]"), std::string::npos) << output;
  EXPECT_EQ(output.find("[  PASSED  ] 0 tests"), std::string::npos) << output;
}

INSTANTIATE_TEST_SUITE_P(Isas, OnednnIsa, testing::Values("SSE41", "AVX2", "AVX512_CORE"),
                         [](const auto& isa) { return isa.param; });

}  // namespace
}  // namespace headroom
