#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/tensors/host_tensor.hpp"
#include "measure/results/result.hpp"

namespace headroom {

/// Measures how far pictures are from the baseline's of the same prompts and seeds, batch by batch.
class PictureComparison {
 public:
  /// Adds pictures and compares each with the reference of the same index; both are [n, channels, height, width] f32
  /// in [-1, 1], and values outside are clamped. Throws Error if shapes differ, and as flip() does.
  void add(const HostTensor& reference, const HostTensor& pictures);

  [[nodiscard]] std::int64_t count() const noexcept { return std::ssize(squared_errors_); }
  /// Quality records of the pictures so far: "psnr_db" of all pictures with an interval over pictures
  /// (psnr_estimate()), and "flip", the mean of flip() over them, likewise. Throws Error if there are none.
  [[nodiscard]] std::vector<QualityRecord> records() const;

 private:
  std::vector<double> squared_errors_, flips_;  // of each picture
};

}  // namespace headroom
