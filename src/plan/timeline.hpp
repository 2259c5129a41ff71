#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/schedule.hpp"
#include "plan/choose.hpp"

namespace headroom {

/// The moments of a line between which something is there, both included: a loop, or what memory holds.
struct Lifetime {
  int first = 0;
  int last = 0;
  friend bool operator==(const Lifetime&, const Lifetime&) = default;
};

/// Until when memory that holds something from `first` on is needed for a read of it at `read`: a read inside a loop of
/// what was there before the loop happens again in each iteration, so the memory is needed until the loop ends. `loops`
/// nest in each other or are apart; those around others come first.
[[nodiscard]] int needed_until(std::span<const Lifetime> loops, int first, int read);

/// Something that happens at one point of the schedule.
struct Moment {
  enum class Kind : std::uint8_t {
    kNode,       ///< runs
    kBegin,      ///< of a region; where a predicate is read
    kEnd,        ///< of a region: its results and next values are read, all before any state changes
    kOtherwise,  ///< the same where an `if` has no else, of its then
  };
  Kind kind = Kind::kNode;
  int node = -1;  ///< in the chosen kernels
  RegionId region = kNoRegion;
};

/// The schedule as a line of moments, one for each node that runs and two for each region, in the order they happen.
class Timeline {
 public:
  Timeline(const Graph& graph, const std::vector<ChosenKernel>& chosen);

  [[nodiscard]] std::span<const Moment> moments() const { return moments_; }
  /// When the program's outputs are read: after its own end.
  [[nodiscard]] int after_all() const { return static_cast<int>(moments_.size()); }
  [[nodiscard]] int of_node(std::size_t chosen) const { return of_node_[chosen]; }
  [[nodiscard]] int begin(RegionId region) const { return begin_[index_of(region)]; }
  [[nodiscard]] int end(RegionId region) const { return end_[index_of(region)]; }
  /// headroom::needed_until() with the graph's loops.
  [[nodiscard]] int needed_until(int first, int read) const { return headroom::needed_until(loops_, first, read); }
  /// Equal for nodes between which no region begins or ends.
  [[nodiscard]] int straight_run(std::size_t chosen) const { return of_node_[chosen] - static_cast<int>(chosen); }

 private:
  /// `positions` are those of the nodes in the chosen kernels.
  void add_region(const Graph& graph, const Schedule& schedule, const std::vector<int>& positions, RegionId id);
  int add(const Moment& moment);

  std::vector<Moment> moments_;
  std::vector<int> of_node_;      // by chosen kernel
  std::vector<int> begin_, end_;  // by region
  std::vector<Lifetime> loops_;
};

}  // namespace headroom
