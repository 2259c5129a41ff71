#pragma once

#include <span>
#include <vector>

#include "ir/graph.hpp"
#include "plan/choose.hpp"
#include "plan/lifetime.hpp"

namespace headroom {

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
  /// When an `if`, given by its then, reads what it returns where that did not run.
  [[nodiscard]] int otherwise(RegionId then) const { return otherwise_[index_of(then)]; }
  [[nodiscard]] const Loops& loops() const { return loops_; }
  /// Equal for nodes between which no region begins or ends.
  [[nodiscard]] int straight_run(std::size_t chosen) const { return of_node_[chosen] - static_cast<int>(chosen); }

 private:
  std::vector<Moment> moments_;
  std::vector<int> of_node_;                  // by chosen kernel
  std::vector<int> begin_, end_, otherwise_;  // by region
  Loops loops_;
};

}  // namespace headroom
