#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/schedule.hpp"
#include "plan/choose.hpp"

namespace headroom {

/// An inclusive range of positions on a timeline: the extent of a loop, or the time during which memory holds a
/// value.
struct Lifetime {
  int first = 0;
  int last = 0;
  friend bool operator==(const Lifetime&, const Lifetime&) = default;
};

/// The position until which memory that holds a value from `first` on must be kept for a read at `read`. If a value
/// made before a loop is read inside it, the read is repeated in each iteration, so the memory is needed until the
/// loop ends. `loops` are nested or disjoint; enclosing loops come first.
[[nodiscard]] int needed_until(std::span<const Lifetime> loops, int first, int read);

/// An event at one point of the schedule.
struct Moment {
  enum class Kind : std::uint8_t {
    kNode,       ///< a node runs
    kBegin,      ///< of a region; for a branch, its predicate is read
    kEnd,        ///< of a region: its results and next values are read, all before any state changes
    kOtherwise,  ///< kEnd of a then branch that was skipped and has no else
  };
  Kind kind = Kind::kNode;
  int node = -1;  ///< index in the chosen kernels
  RegionId region = kNoRegion;
};

/// The schedule as a linear sequence of moments: one per node that runs and two per region, in execution order.
class Timeline {
 public:
  Timeline(const Graph& graph, const std::vector<ChosenKernel>& chosen);

  [[nodiscard]] std::span<const Moment> moments() const { return moments_; }
  /// The moment at which the program's outputs are read, after all others.
  [[nodiscard]] int after_all() const { return static_cast<int>(moments_.size()); }
  [[nodiscard]] int of_node(std::size_t chosen) const { return of_node_[chosen]; }
  [[nodiscard]] int begin(RegionId region) const { return begin_[index_of(region)]; }
  [[nodiscard]] int end(RegionId region) const { return end_[index_of(region)]; }
  /// headroom::needed_until() with the graph's loops.
  [[nodiscard]] int needed_until(int first, int read) const { return headroom::needed_until(loops_, first, read); }
  /// Equal for nodes without the begin or end of a region between them.
  [[nodiscard]] int straight_run(std::size_t chosen) const { return of_node_[chosen] - static_cast<int>(chosen); }

 private:
  /// `positions` are the indices of the nodes in the chosen kernels.
  void add_region(const Graph& graph, const Schedule& schedule, const std::vector<int>& positions, RegionId id);
  int add(const Moment& moment);

  std::vector<Moment> moments_;
  std::vector<int> of_node_;      // by chosen kernel
  std::vector<int> begin_, end_;  // by region
  std::vector<Lifetime> loops_;
};

}  // namespace headroom
