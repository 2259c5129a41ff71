#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
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

/// What a kernel is prepared for: a node's work or a part of it, with its operands as they lie in memory.
struct PlacedWork {
  OpSpec spec;
  std::vector<Operand> inputs = {}, outputs = {};
  friend bool operator==(const PlacedWork&, const PlacedWork&) = default;
};

/// Thrown to begin a plan again: a kernel that was chosen cannot be prepared.
struct Refused {
  RefusedWork work;
};

/// Kernels of equal work, prepared once for each copy: a model of 57 equal blocks asks for a few dozen.
class PreparedKernels {
 public:
  /// Equal `copy` numbers share. Throws Refused.
  [[nodiscard]] std::shared_ptr<const PreparedKernel> prepare(const ChosenKernel& choice, const PlacedWork& work,
                                                              const Target& target, int copy = 0);
  /// Waits until all are ready to be launched. Throws Refused.
  void finish();

 private:
  using Known = std::pair<PlacedWork, std::shared_ptr<const PreparedKernel>>;
  std::map<std::tuple<const Kernel*, int, int>, std::vector<Known>> known_;  // by kernel, threads and copy
};

}  // namespace headroom
