#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "ir/graph.hpp"
#include "plan/placement.hpp"

namespace headroom {

/// No kernel of the device runs a node.
class NoKernel : public Error {
 public:
  NoKernel(const std::string& message, std::string reasons) : Error(message), reasons_(std::move(reasons)) {}
  /// Each kernel's, "onednn.linear: takes f32, not f64; ...", or that none is of this op.
  [[nodiscard]] const std::string& reasons() const noexcept { return reasons_; }

 private:
  std::string reasons_;
};

/// The first kernel of the target's list that supports each node, in schedule order, nodes that make weights left out.
/// Throws NoKernel with every kernel's reason where none does.
[[nodiscard]] std::vector<ChosenKernel> choose_kernels(const Graph& graph, const std::vector<bool>& is_weight,
                                                       const Target& target);

}  // namespace headroom
