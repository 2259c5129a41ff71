#pragma once

#include <vector>

namespace headroom {

/// The moments of a line between which memory is needed, both included.
struct Lifetime {
  int first = 0;
  int last = 0;
  friend bool operator==(const Lifetime&, const Lifetime&) = default;
};

/// A line of moments of which loops repeat stretches, and the one rule of how long memory is needed: a read inside a
/// loop of what was there before the loop happens again in each iteration, so the memory is needed until the loop ends.
class Loops {
 public:
  /// `loops` nest in each other or are apart; those around others come first.
  Loops(int moments, std::vector<Lifetime> loops);

  /// Until when memory that holds something from `first` on is needed for a read of it at `read`.
  [[nodiscard]] int needed_until(int first, int read) const;

 private:
  std::vector<Lifetime> loops_;
  std::vector<int> outer_;      // by loop: the one around it, or -1
  std::vector<int> innermost_;  // by moment: the loop that it is in, or -1
};

}  // namespace headroom
