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

/// Weights of one folding that are to be folded again.
struct FoldingJob {
  const WeightFolding* folding = nullptr;
  std::vector<WeightHandle> wanted;
};

/// Folds weights again that one program makes, one after the other, so that the link to the device is never idle: while a
/// weight is folded, the params of the next are on their way, on a stream of their own and to memory of their own. What
/// is added to the params goes there before all of them.
class FoldingLine {
 public:
  /// Two weights' params at once.
  static constexpr std::size_t kSlots = 2;

  /// None of it is owned. All jobs have `program`.
  FoldingLine(std::shared_ptr<const Program> program, std::span<const FoldingJob> jobs, const ParamValues& params,
              Backend& backend);

  /// Device memory that run() takes, at most.
  [[nodiscard]] std::size_t bytes() const;
  /// Submits it all: copies to `uploads`, the rest to `stream`. Calls `before_writing` before what writes to a weight.
  void run(const std::shared_ptr<Stream>& stream, Stream& uploads, const std::function<void()>& before_writing) const;

 private:
  std::shared_ptr<const Program> program_;
  std::span<const FoldingJob> jobs_;
  const ParamValues& params_;
  Backend& backend_;
  std::vector<std::vector<FoldingInput>> inputs_;  // by job
  std::size_t slot_bytes_ = 0;                     // of a job's params
  std::size_t added_bytes_ = 0;                    // of what is added in all jobs
};

}  // namespace headroom
