#include "plan/program.hpp"

#include <algorithm>

namespace headroom {

const TiledRun* tiled_run_at(const Program& program, int step) {
  const auto found =
      std::ranges::find_if(program.tiled, [&](const TiledRun& run) { return run.first <= step && step < run.last; });
  return found == program.tiled.end() ? nullptr : &*found;
}

}  // namespace headroom
