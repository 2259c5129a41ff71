#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace headroom {

/// A step in a series.
struct ChangePoint {
  std::size_t index = 0;  ///< of the first value of the new level
  double before = 0;      ///< median from the previous change point, or the beginning, to this one
  double after = 0;       ///< median from this one to the next, or the end
  double p = 1;           ///< of the permutation test
  friend bool operator==(const ChangePoint&, const ChangePoint&) = default;
};

struct ChangePointOptions {
  double alpha = 0.05;     ///< the largest p of a step
  int permutations = 999;  ///< of each test
  std::uint64_t seed = 0;
};

/// The fewest values that can show a step at 5%.
inline constexpr std::size_t kFewestForChangePoint = 8;

/// Finds the steps of a series, in order, by E-divisive with means. Each segment is split where the energy distance
/// between its parts is largest. The split is kept if few permutations within the segments reach that distance; then
/// both parts are searched. The second part always reaches to the end of its segment. The method assumes no
/// distribution. A part has at least 2 values. Throws Error for a NaN or infinity.
/// Sources: Matteson and James, "A nonparametric approach for multiple change point analysis of multivariate data",
/// JASA 109, 2014; for the second part, Daly, Brown, Ingo, O'Leary and Bradford, "The use of change point detection to
/// identify software performance regressions in a continuous integration system", ICPE 2020.
[[nodiscard]] std::vector<ChangePoint> find_change_points(std::span<const double> series,
                                                          const ChangePointOptions& options = {});

}  // namespace headroom
