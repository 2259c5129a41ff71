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

// A library orders its algorithms by a model of the GPU. The fastest of its first few is up to 13% faster than its
// first (docs/gpu_facts.md), so work large enough to matter is measured once, recorded and on buffers of its real size as in runs, and the
// choice kept on disk. Where there is no time for that it is taken over from work of another size (NewWork::kTakeOver).

namespace headroom::tune {

/// An operand of the work that candidates are timed on.
struct TrialOperand {
  DType dtype = DType::kF32;
  std::size_t bytes = 0;
  bool is_result = false;  ///< others are filled with random numbers: on zeros a GPU draws less power and runs faster
  std::size_t copies = 1;  ///< taken in turn, so that a weight comes from memory as in a model
};

/// Work that a library does in several ways.
struct Work {
  std::string text;  ///< all that a choice depends on in one line, the same for the same work
  std::vector<TrialOperand> operands;
  SizeKey size_key = {};
};

/// One of the ways.
struct Candidate {
  std::string name;  ///< what tells it from the others, in every process on this device and version of the library
  std::size_t workspace_bytes = 0;
};

/// Submits candidate `index` to a stream (cudaStream_t); throws Error where the library refuses.
using LaunchCandidate =
    std::function<void(std::size_t index, void* stream, std::span<void* const> operands, void* workspace)>;

/// Fills memory with elements of random sign whose magnitude is between 1/2 and 1; integers with any. `bytes` is a
/// multiple of 4.
using FillRandom = std::function<void(Stream& stream, DType dtype, DevicePointer memory, std::size_t bytes)>;

struct Choice {
  std::size_t index = 0;
  bool is_measured = false;  ///< here or before; else there was no memory to measure with, and it is the first
  friend bool operator==(const Choice&, const Choice&) = default;
};

/// Finds the fastest algorithms of one library on one device. Two threads may ask at once.
class Tuner {
 public:
  /// `library` with its version: "cuBLASLt 130100". Choices are kept for the backend's device, `driver` and `library`.
  Tuner(Backend& backend, std::string driver, std::string library, FillRandom fill_random);

  /// The name of the candidate that was fastest before, in this process or another.
  [[nodiscard]] std::optional<std::string> find_known(const Work& work);
  /// The fastest of the candidates, best guess first: the one that is known, or the fastest measured now, which is then
  /// kept. The first stays unless another is 2% faster. Nothing where the library refuses to launch any.
  [[nodiscard]] std::optional<Choice> find_fastest(const Work& work, std::span<const Candidate> candidates,
                                                   const LaunchCandidate& launch);
  /// Keeps what was measured to be the fastest, for this process and others.
  void keep(const Work& work, const std::string& name, double microseconds);

  /// What was fastest, as measured here or before, for work of the same kin, the nearest size first.
  [[nodiscard]] std::vector<TunedSize> find_nearest(const Work& work);
  /// Whether the library runs a candidate: it is launched once, as number 0, and not timed. True, too, where there is no memory to
  /// launch it with.
  [[nodiscard]] bool accepts(const Work& work, const Candidate& candidate, const LaunchCandidate& launch);

 private:
  void remember(const Work& work, const std::string& name);
  std::vector<double> measure(const Work& work, std::span<const Candidate> candidates, const LaunchCandidate& launch);

  Backend& backend_;
  FillRandom fill_random_;
  std::recursive_mutex mutex_;
  std::optional<TuningCache> cache_;
  std::map<std::string, std::string> known_;                   // by the work's text
  std::map<std::string, std::vector<TunedSize>> tuned_sizes_;  // of known_, by kin
};

}  // namespace headroom::tune
