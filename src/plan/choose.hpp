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

/// The kernel chosen for one node that is executed, and the work that it was chosen for.
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
  /// The reason of each kernel, "onednn.linear: takes f32, not f64; ...", or that no kernel implements this op.
  [[nodiscard]] const std::string& reasons() const noexcept { return reasons_; }

 private:
  std::string reasons_;
};

/// Work that a kernel supports but failed to prepare.
struct RefusedWork {
  const Kernel* kernel = nullptr;
  OpSpec spec;
  std::string reason;
};

/// For each node in schedule order, except those that make weights: the first of `kernels` that supports it and has
/// not refused it. Throws NoKernel with the reason of every kernel if none does.
[[nodiscard]] std::vector<ChosenKernel> choose_kernels(const Graph& graph, const std::vector<bool>& is_weight,
                                                       const Target& target, std::span<const Kernel* const> kernels,
                                                       std::span<const RefusedWork> refused);

/// The work that a kernel is prepared for: that of a node or of a part of it, with its operands' strides and offsets.
struct PlacedWork {
  OpSpec spec;
  std::vector<Operand> inputs = {}, outputs = {};
  friend bool operator==(const PlacedWork&, const PlacedWork&) = default;
};

/// Thrown to restart planning: a kernel that was chosen cannot be prepared.
struct Refused {
  RefusedWork work;
};

/// Kernels of equal work, prepared once per copy: a model of 57 equal blocks needs only a few dozen.
class PreparedKernels {
 public:
  /// Equal work with equal `copy` numbers shares one prepared kernel. Throws Refused.
  [[nodiscard]] std::shared_ptr<const PreparedKernel> prepare(const ChosenKernel& choice, const PlacedWork& work,
                                                              const DeviceTarget& target, int copy = 0);
  /// Waits until all are ready to be launched. Throws Refused.
  void finish();

 private:
  using Known = std::pair<PlacedWork, std::shared_ptr<const PreparedKernel>>;
  std::map<std::tuple<const Kernel*, int, int>, std::vector<Known>> known_;  // by kernel, threads and copy
};

}  // namespace headroom
