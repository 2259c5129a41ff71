#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backends/backend.hpp"
#include "base/host_tensor.hpp"
#include "io/checkpoint.hpp"
#include "measure/quality.hpp"
#include "models/classifier.hpp"
#include "run/session.hpp"
#include "run/weight_store.hpp"

namespace headroom {

/// What a judge says of a set of images.
struct Judgement {
  Estimate accuracy;        ///< how often the label asked for is the one seen
  double frechet_distance;  ///< of the features, from those of the reference images; biased upwards for few images
  std::int64_t images = 0;
};

/// The classifier that ships with a model, in its folder `classifier`: config.json, model.safetensors and
/// reference_stats.safetensors (`mean` [f], `covariance` [f, f] of the features of real images). It always runs in f32
/// without optimizations, on the CPU whatever made the images, so that every rung of every device is judged alike.
class Judge {
 public:
  /// Opens the judge of a model's folder; nothing where it has none. `backend` must outlive it.
  [[nodiscard]] static std::unique_ptr<Judge> open(const std::filesystem::path& model_folder, Backend& backend);

  /// Judges pixels [n, channels, height, width] f32; they are clamped to [-1, 1] first, as an image file does. `labels`
  /// holds what each should be.
  [[nodiscard]] Judgement judge(const HostTensor& pixels, std::span<const std::int64_t> labels);

 private:
  Judge(const std::filesystem::path& folder, Backend& backend);

  static constexpr std::int64_t kBatch = 20;

  Checkpoint checkpoint_;
  ClassifierConfig config_;
  WeightStore weights_;
  std::unique_ptr<Session> session_;
  std::vector<double> reference_mean_;
  std::vector<double> reference_covariance_;
};

}  // namespace headroom
