#include "kernels/simd_targets.hpp"

#include <cctype>

#include "hwy/targets.h"

namespace headroom {

std::string highway_target_name() {
  // Lower bits are better targets; dispatch takes the best that was compiled and that the CPU has.
  const std::int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  std::string name = "highway:";
  for (const char* letter = hwy::TargetName(usable & -usable); *letter != 0; ++letter) {
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(*letter)));
  }
  return name;
}

}  // namespace headroom
