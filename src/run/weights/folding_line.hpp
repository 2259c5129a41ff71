#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backends/backend.hpp"
#include "plan/program.hpp"
#include "run/weights/folded_weight.hpp"
#include "run/weights/param_values.hpp"
#include "run/weights/weight_folding.hpp"

namespace headroom {

/// Weights of one folding that must be folded again.
struct FoldingJob {
  const WeightFolding* folding = nullptr;
  std::vector<WeightHandle> wanted;
};

/// Folds again weights of one program, one after the other, and keeps the link to the device busy. While one weight
/// is folded, the params of the next are copied, on a separate stream and to separate memory. The tensors of updates
/// are copied before all of them.
class FoldingLine {
 public:
  /// Params of two weights at once.
  static constexpr std::size_t kSlots = 2;

  /// Owns none of its arguments. All jobs have `program`.
  FoldingLine(std::shared_ptr<const Program> program, std::span<const FoldingJob> jobs, const ParamValues& params,
              Backend& backend);

  /// The maximum of device memory that run() takes.
  [[nodiscard]] std::size_t bytes() const;
  /// Submits all work: copies to `uploads`, the rest to `stream`. Calls `before_writing` before the first write to a
  /// weight.
  void run(const std::shared_ptr<Stream>& stream, Stream& uploads, const std::function<void()>& before_writing) const;

 private:
  std::shared_ptr<const Program> program_;
  std::span<const FoldingJob> jobs_;
  const ParamValues& params_;
  Backend& backend_;
  std::vector<std::vector<FoldingInput>> inputs_;  // by job
  std::size_t slot_bytes_ = 0;                     // for the params of a job
  std::size_t added_bytes_ = 0;                    // for the update tensors of all jobs
};

}  // namespace headroom
