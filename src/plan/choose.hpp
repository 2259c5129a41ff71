#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "ir/graph.hpp"
#include "plan/program.hpp"

namespace headroom {

/// The kernel chosen for one node that runs, with what it was chosen for.
struct ChosenKernel {
  int node = -1;  ///< index in graph.nodes()
  const Kernel* kernel = nullptr;
  OpSpec spec;
  std::vector<RejectedKernel> rejections;
};

/// No kernel of the device runs a node.
class NoKernel : public Error {
 public:
  NoKernel(const std::string& message, std::string reasons) : Error(message), reasons_(std::move(reasons)) {}
  /// Each kernel's, "onednn.linear: takes f32, not f64; ...", or that none is of this op.
  [[nodiscard]] const std::string& reasons() const noexcept { return reasons_; }

 private:
  std::string reasons_;
};

/// Work that a kernel supports and that could not be prepared.
struct RefusedWork {
  const Kernel* kernel = nullptr;
  OpSpec spec;
  std::string reason;
};

/// The first of `kernels` that supports each node and has not refused it, in schedule order, nodes that make weights
/// left out. Throws NoKernel with every kernel's reason where none does.
[[nodiscard]] std::vector<ChosenKernel> choose_kernels(const Graph& graph, const std::vector<bool>& is_weight,
                                                       const Target& target, std::span<const Kernel* const> kernels,
                                                       std::span<const RefusedWork> refused);

}  // namespace headroom
