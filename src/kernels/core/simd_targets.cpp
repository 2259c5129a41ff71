#include "kernels/core/simd_targets.hpp"

#include <cctype>
#include <map>

#include "hwy/targets.h"

namespace headroom {
namespace {

#if HWY_ARCH_X86
/// AVX3_DL represents AVX-512 with bf16 instructions (see the header). Runs before main, so before any dispatch.
[[maybe_unused]] const bool kDispatchIsRestricted = [] {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx512bf16")) hwy::DisableTargets(HWY_AVX3_DL);
  return true;
}();
#endif

std::string name_of_target(std::int64_t target) {
  if (target == HWY_AVX3_DL) return "avx3_bf16";
  std::string name;
  for (const char* letter = hwy::TargetName(target); *letter != 0; ++letter)
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(*letter)));
  return name;
}

std::string find_target_name() {
  // Highway 1.0's query of the supported targets also resets dispatch to all of the CPU's targets, disabled ones
  // included. So dispatch has to be restricted again.
  const std::int64_t supported = hwy::SupportedTargets();
  hwy::GetChosenTarget().Update(supported);
  // Lower bits are better targets; dispatch takes the best that was compiled and that the CPU has.
  const std::int64_t usable = supported & HWY_TARGETS;
  return usable == 0 ? "" : "highway:" + name_of_target(usable & -usable);
}

}  // namespace

std::string highway_target_name() {
  // Once for each target that dispatch takes: under a hypervisor each question to the CPU takes tens of microseconds.
  static thread_local std::map<std::size_t, std::string> known;  // by dispatch's index
  const hwy::ChosenTarget& dispatch = hwy::GetChosenTarget();
  if (!dispatch.IsInitialized()) return find_target_name();
  std::string& name = known[dispatch.GetIndex()];
  if (name.empty()) name = find_target_name();
  return name;
}

std::vector<std::string> compiled_vector_units() {
  std::vector<std::string> names;
  for (std::int64_t rest = HWY_TARGETS; rest != 0; rest &= rest - 1) names.push_back(name_of_target(rest & -rest));
  return names;
}

}  // namespace headroom
