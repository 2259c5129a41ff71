#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "base/tensors/dtype.hpp"
#include "tune/nearest_size.hpp"
#include "tune/tuning_cache.hpp"

// A library ranks its algorithms by a model of the GPU. The fastest of its first candidates is up to 13% faster than
// the first (docs/gpu_facts.md). Work large enough to matter is therefore measured once, recorded as in runs and on
// buffers of its real size. The choice is stored on disk. If there is no time to measure, the choice is taken over
// from the nearest tuned size (NewWork::kTakeOver).

namespace headroom::tune {

/// An operand of the work that candidates are timed on.
struct TrialOperand {
  DType dtype = DType::kF32;
  std::size_t bytes = 0;
  bool is_result = false;  ///< inputs get random numbers: on zeros a GPU draws less power and runs faster
  std::size_t copies = 1;  ///< used in rotation, so that a weight is read from memory, not cache, as in a model
};

/// Work for which a library offers several algorithms.
struct Work {
  std::string text;  ///< all that a choice depends on in one line; equal for equal work
  std::vector<TrialOperand> operands;
  SizeKey size_key = {};
};

/// One algorithm for the work.
struct Candidate {
  std::string name;  ///< unique and stable for this device and version of the library
  std::size_t workspace_bytes = 0;
};

/// Submits candidate `index` to a stream (cudaStream_t); throws Error where the library refuses.
using LaunchCandidate =
    std::function<void(std::size_t index, void* stream, std::span<void* const> operands, void* workspace)>;

/// Fills memory with elements of random sign whose magnitude is between 1/2 and 1; integers take any value. `bytes`
/// is a multiple of 4.
using FillRandom = std::function<void(Stream& stream, DType dtype, DevicePointer memory, std::size_t bytes)>;

struct Choice {
  std::size_t index = 0;
  bool is_measured = false;  ///< here or earlier; false: no memory to measure with, so the first candidate is chosen
  friend bool operator==(const Choice&, const Choice&) = default;
};

/// Finds the fastest algorithms of one library on one device. Thread-safe.
class Tuner {
 public:
  /// `library` with its version: "cuBLASLt 130100". Choices are kept for the backend's device, `driver` and `library`.
  Tuner(Backend& backend, std::string driver, std::string library, FillRandom fill_random);

  /// The name of the candidate that was measured fastest before, in this process or another.
  [[nodiscard]] std::optional<std::string> find_known(const Work& work);
  /// The fastest of the candidates, which are listed best guess first: the known one, or the fastest measured now,
  /// which is then stored. The first candidate is kept unless another is at least 2% faster. Nothing if the library
  /// refuses to launch any.
  [[nodiscard]] std::optional<Choice> find_fastest(const Work& work, std::span<const Candidate> candidates,
                                                   const LaunchCandidate& launch);
  /// Stores the algorithm measured to be the fastest, for this process and others.
  void keep(const Work& work, const std::string& name, double microseconds);

  /// The fastest algorithms measured here or earlier for work of the same family, the nearest size first.
  [[nodiscard]] std::vector<TunedSize> find_nearest(const Work& work);
  /// Whether the library accepts a candidate, which is launched once, as index 0, and not timed. Also true if there
  /// is no memory for the launch.
  [[nodiscard]] bool accepts(const Work& work, const Candidate& candidate, const LaunchCandidate& launch);

 private:
  void remember(const Work& work, const std::string& name);
  std::vector<double> measure(const Work& work, std::span<const Candidate> candidates, const LaunchCandidate& launch);

  Backend& backend_;
  FillRandom fill_random_;
  std::recursive_mutex mutex_;
  std::optional<TuningCache> cache_;
  std::map<std::string, std::string> known_;                   // by the work's text
  std::map<std::string, std::vector<TunedSize>> tuned_sizes_;  // of known_, by family
};

}  // namespace headroom::tune
