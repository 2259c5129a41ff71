#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>

#include "plan/choose.hpp"

namespace headroom {

/// Thrown to begin a plan again: a kernel that was chosen cannot be prepared.
struct Refused {
  RefusedWork work;
};

/// Kernels of equal work, prepared once for each copy: a model of 57 equal blocks asks for a few dozen.
class PreparedKernels {
 public:
  /// `spec` is of the whole of what `choice` was chosen for, or of a part; equal `copy` numbers share. Throws Refused.
  [[nodiscard]] std::shared_ptr<const PreparedKernel> prepare(const ChosenKernel& choice, const OpSpec& spec,
                                                              std::span<const Operand> inputs,
                                                              std::span<const Operand> outputs, const Target& target,
                                                              int copy = 0);

 private:
  std::map<std::string, std::shared_ptr<const PreparedKernel>> kernels_;  // by all that they are prepared from
};

}  // namespace headroom
