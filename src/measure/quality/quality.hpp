#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "measure/statistics/statistics.hpp"

/// Distances between results and a reference. Only finite data is accepted: every function throws Error, with the
/// place, on a NaN or infinity, so that a broken image never passes as a good one.
namespace headroom {

/// Peak signal-to-noise ratio in dB, 10 log10(peak^2 / mean squared error), over all elements of both sets of images.
/// `peak` is the distance from black to white: 2 for images in [-1, 1], 255 for bytes. Nothing if both are identical:
/// the ratio is then infinite, which a result file cannot hold and writes as the note `identical`. Throws Error if
/// the sizes differ, there are no elements, or `peak` is not positive.
[[nodiscard]] std::optional<double> psnr_db(std::span<const float> reference, std::span<const float> images,
                                            double peak = 2);

/// The mean of values that each belong to another image or clip. Its 95% interval follows from their spread by
/// Student's t distribution; a single value has no interval. Throws Error if there are none.
[[nodiscard]] Estimate mean_estimate(std::span<const double> values);

/// psnr_db() of several images of one size, from the mean squared error of each. Its 95% interval covers the
/// variation between images of the same kind: mean_estimate() of the errors, converted to dB to first order, so that
/// it is finite and symmetric. Nothing if no image has an error. Throws Error if there are none, for an error that is
/// negative or not finite, and as psnr_db() does for `peak`.
[[nodiscard]] std::optional<Estimate> psnr_estimate(std::span<const double> squared_errors, double peak = 2);

/// Mean and covariance of feature vectors, accumulated batch by batch without loss of precision. Batches are centred
/// before they are summed, and merged by Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for
/// computing sample variances" (1979).
class FeatureStatistics {
 public:
  /// For vectors of `width` features.
  explicit FeatureStatistics(std::int64_t width);

  /// Adds rows of `features`  // [n, width], row-major
  void add(std::span<const float> features);

  [[nodiscard]] std::int64_t width() const noexcept { return width_; }
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  /// [width]. Throws Error where no vector was added.
  [[nodiscard]] const std::vector<double>& mean() const;
  /// The unbiased covariance, [width, width] row-major. Throws Error with fewer than two vectors.
  [[nodiscard]] std::vector<double> covariance() const;

 private:
  std::int64_t width_;
  std::int64_t count_ = 0;
  std::vector<double> mean_;
  std::vector<double> scatter_;  // sum of (x - mean)(x - mean)^T, both triangles
};

/// The squared Frechet (Wasserstein-2) distance of two normal distributions,
///   |m1 - m2|^2 + tr(C1 + C2 - 2 (C1^1/2 C2 C1^1/2)^1/2)
/// (Dowson and Landau, "The Frechet distance between multivariate normal distributions", 1982). On features of
/// Inception it is FID (Heusel et al., "GANs trained by a two time-scale update rule", 2017). The inner product is
/// written with C1^1/2 on both sides so that it is symmetric and its root always real. Rounding below zero is
/// returned as 0. `mean` is [f], `covariance` [f, f], symmetric and positive semidefinite; Error otherwise.
[[nodiscard]] double frechet_distance(std::span<const double> mean1, std::span<const double> covariance1,
                                      std::span<const double> mean2, std::span<const double> covariance2);
[[nodiscard]] double frechet_distance(const FeatureStatistics& a, const FeatureStatistics& b);

/// A set's distance from a reference, and the contribution of each image to its error. `influence` has an entry for
/// each row of features, [n]; its mean is 0. To first order, the distance of other images of the same kind varies
/// around `value` with the variance var(influence) / n. This is the infinitesimal jackknife of Efron, "The Jackknife,
/// the Bootstrap and Other Resampling Plans", 1982. T = C2^1/2 (C2^1/2 C1 C2^1/2)^-1/2 C2^1/2 maps one normal
/// distribution to the other. A row x then has the influence
///   2 (m1 - m2)^T (x - m1) + (x - m1)^T (I - T) (x - m1) - tr((I - T) C1).
struct FrechetSample {
  double value = 0;
  std::vector<double> influence;
};
/// The distance of `features`, [n, f] row-major, from a reference of mean [f] and covariance [f, f]. Throws Error as
/// frechet_distance() does, and for fewer than two rows.
[[nodiscard]] FrechetSample sample_frechet(std::span<const float> features, std::span<const double> mean,
                                           std::span<const double> covariance);
/// The distance with its 95% interval, which covers the sampling error but not the upward bias of small sets.
[[nodiscard]] Estimate frechet_estimate(const FrechetSample& sample);
/// How much larger the distance of `sample` is than that of `base`. Row i of both must come from the same prompt and
/// seed, so that common errors, including the bias, cancel. Throws Error if their numbers of rows differ.
[[nodiscard]] Estimate frechet_difference(const FrechetSample& base, const FrechetSample& sample);

/// The fraction `correct / total` with the 95% score interval of Wilson ("Probable inference, the law of succession,
/// and statistical inference", 1927). The interval stays within [0, 1] and is accurate near both ends. Throws Error
/// unless 0 <= correct <= total and total > 0.
[[nodiscard]] Estimate accuracy(std::int64_t correct, std::int64_t total);

/// How much more often `changed` is right than `base`; image i of both must come from the same prompt and seed. The
/// 95% interval is that of Agresti and Min ("Simple improved confidence intervals for comparing matched proportions",
/// 2005), which has a width even if no image changed. Throws Error if their numbers differ, or there are none.
[[nodiscard]] Estimate accuracy_difference(const std::vector<bool>& base, const std::vector<bool>& changed);

}  // namespace headroom
