#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "backends/backend.hpp"
#include "base/tensors/host_tensor.hpp"
#include "io/checkpoint.hpp"
#include "models/classifier.hpp"
#include "run/session/session.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {

/// A classifier's results for images.
struct SeenImages {
  std::vector<std::int64_t> labels;  ///< the most likely label of each image
  std::vector<float> features;       ///< [images, feature_dim]
};

/// The classifier that ships with a model: config.json, model.safetensors and reference_stats.safetensors (`mean` [f]
/// and `covariance` [f, f] of the features of real images). It always runs in f32 without optimizations, on the CPU,
/// so that every rung on every device is judged alike.
class ClassifierJudge {
 public:
  /// Opens the judge in the subfolder `classifier` of a model folder. Throws Error if there is none. `cpu` must
  /// outlive it.
  [[nodiscard]] static std::unique_ptr<ClassifierJudge> open(const std::filesystem::path& model_folder, Backend& cpu);

  /// Classifies pixels [n, channels, height, width] f32. They are first clamped to [-1, 1], as in an image file.
  [[nodiscard]] SeenImages look_at(const HostTensor& pixels);

  [[nodiscard]] std::int64_t feature_dim() const noexcept { return config_.feature_dim; }
  /// Statistics of the features of real images: [f] and [f, f].
  [[nodiscard]] std::span<const double> reference_mean() const noexcept { return reference_mean_; }
  [[nodiscard]] std::span<const double> reference_covariance() const noexcept { return reference_covariance_; }

 private:
  ClassifierJudge(const std::filesystem::path& folder, Backend& cpu);

  static constexpr std::int64_t kBatch = 20;

  Checkpoint checkpoint_;
  ClassifierConfig config_;
  WeightStore weights_;
  std::unique_ptr<Session> session_;
  std::vector<double> reference_mean_;
  std::vector<double> reference_covariance_;
};

}  // namespace headroom
