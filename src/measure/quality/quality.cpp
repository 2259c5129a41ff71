#include "measure/quality/quality.hpp"

#include <Eigen/Core>
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numbers>
#include <string_view>

#include "base/error.hpp"
#include "measure/statistics/distributions.hpp"

namespace headroom {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Vector = Eigen::VectorXd;

constexpr double kNormalQuantile = 1.959963984540054;  // of 0.975
constexpr double kSemidefiniteSlack = 1e-6;            // relative to the largest entry: rounding error of fp32 features

template <typename T>
void check_finite(std::span<const T> values, std::string_view what) {
  const auto bad = std::ranges::find_if(values, [](T value) { return !std::isfinite(value); });
  if (bad != values.end())
    fail("element {} of the {} is {}; only finite values can be judged", bad - values.begin(), what, *bad);
}

void check_pair(std::span<const float> reference, std::span<const float> values) {
  if (reference.size() != values.size()) {
    fail("{} elements cannot be compared with a reference of {}", values.size(), reference.size());
  }
  if (reference.empty()) fail("there are no elements to compare");
  check_finite(reference, "reference");
  check_finite(values, "result");
}

double squared_error(std::span<const float> reference, std::span<const float> values) {
  double sum = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double difference = double{values[i]} - double{reference[i]};
    sum += difference * difference;
  }
  return sum;
}

/// The covariance as a matrix, after validation.
Matrix checked_covariance(std::span<const double> covariance, Eigen::Index width) {
  if (static_cast<Eigen::Index>(covariance.size()) != width * width) {
    fail("a covariance of {} elements does not fit a mean of {}; {} are expected", covariance.size(), width,
         width * width);
  }
  check_finite(covariance, "covariance");
  Matrix matrix = Eigen::Map<const Matrix>(covariance.data(), width, width);
  const double asymmetry = (matrix - matrix.transpose()).cwiseAbs().maxCoeff();
  if (asymmetry > kSemidefiniteSlack * matrix.cwiseAbs().maxCoeff()) {
    fail("the covariance is not symmetric: entries across the diagonal differ by up to {}", asymmetry);
  }
  return matrix;
}

Eigen::SelfAdjointEigenSolver<Matrix> decompose(const Matrix& symmetric, int options) {
  Eigen::SelfAdjointEigenSolver<Matrix> solver(symmetric, options);
  if (solver.info() != Eigen::Success)
    fail("the eigenvalues of a {0} x {0} covariance did not converge", symmetric.rows());
  return solver;
}

/// The square roots of eigenvalues of a positive semidefinite matrix; small negative ones from rounding count as 0.
Vector root_of_eigenvalues(const Vector& eigenvalues) {
  const double smallest = eigenvalues.minCoeff();
  if (smallest < -kSemidefiniteSlack * eigenvalues.cwiseAbs().maxCoeff()) {
    fail("the covariance has the eigenvalue {}; none may be negative", smallest);
  }
  return eigenvalues.cwiseMax(0).cwiseSqrt();
}

/// The square root of a positive semidefinite matrix, or the pseudoinverse of that root.
Matrix root_of(const Matrix& symmetric, bool inverse = false) {
  const auto parts = decompose(symmetric, Eigen::ComputeEigenvectors);
  Vector roots = root_of_eigenvalues(parts.eigenvalues());
  if (inverse) {
    const double least = kSemidefiniteSlack * roots.maxCoeff();
    roots = roots.unaryExpr([&](double root) { return root > least ? 1 / root : 0.0; });
  }
  return parts.eigenvectors() * roots.asDiagonal() * parts.eigenvectors().transpose();
}

/// The standard error of a mean from the influence of each value; the mean of the influences is 0.
double standard_error(std::span<const double> influence) {
  const auto n = static_cast<double>(influence.size());
  double squares = 0;
  for (const double each : influence) squares += each * each;
  return std::sqrt(squares / (n - 1) / n);
}

Estimate around(double value, std::span<const double> influence) {
  const double half = kNormalQuantile * standard_error(influence);
  return {value, Interval{value - half, value + half}};
}

void check_peak(double peak) {
  if (!(peak > 0) || !std::isfinite(peak)) fail("a peak of {} was given for PSNR; it must be over zero", peak);
}

}  // namespace

std::optional<double> psnr_db(std::span<const float> reference, std::span<const float> images, double peak) {
  check_pair(reference, images);
  check_peak(peak);
  const double mean_squared_error = squared_error(reference, images) / static_cast<double>(reference.size());
  if (mean_squared_error == 0) return std::nullopt;
  return 10 * std::log10(peak * peak / mean_squared_error);
}

FeatureStatistics::FeatureStatistics(std::int64_t width) : width_(width) {
  if (width < 1) fail("feature vectors of width {} were given; at least 1 is needed", width);
  mean_.resize(static_cast<std::size_t>(width));
  scatter_.resize(static_cast<std::size_t>(width * width));
}

void FeatureStatistics::add(std::span<const float> features) {
  const auto elements = static_cast<std::int64_t>(features.size());
  if (elements % width_ != 0) fail("{} feature elements are not whole vectors of {}", elements, width_);
  if (elements == 0) return;
  check_finite(features, "features");
  const std::int64_t rows = elements / width_;
  using FloatMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Matrix batch = Eigen::Map<const FloatMatrix>(features.data(), rows, width_).cast<double>();  // [rows, width]
  const Vector batch_mean = batch.colwise().mean();                                            // [width]
  batch.rowwise() -= batch_mean.transpose();

  Eigen::Map<Vector> mean(mean_.data(), width_);
  Eigen::Map<Matrix> scatter(scatter_.data(), width_, width_);
  const Vector shift = batch_mean - mean;
  const auto before = static_cast<double>(count_);
  const auto added = static_cast<double>(rows);
  scatter += batch.transpose() * batch + (before * added / (before + added)) * shift * shift.transpose();
  mean += (added / (before + added)) * shift;
  count_ += rows;
}

const std::vector<double>& FeatureStatistics::mean() const {
  if (count_ == 0) fail("there are no feature vectors to take the mean of");
  return mean_;
}

std::vector<double> FeatureStatistics::covariance() const {
  if (count_ < 2) fail("a covariance needs at least 2 feature vectors, {} were given", count_);
  std::vector<double> covariance = scatter_;
  for (double& entry : covariance) entry /= static_cast<double>(count_ - 1);
  return covariance;
}

Estimate mean_estimate(std::span<const double> values) {
  if (values.empty()) fail("there are no values to take the mean of");
  double sum = 0;
  for (const double value : values) sum += value;
  const double mean = sum / static_cast<double>(values.size());
  if (values.size() == 1) return {mean, {}};
  std::vector<double> influence(values.size());
  std::ranges::transform(values, influence.begin(), [&](double value) { return value - mean; });
  const auto degrees = static_cast<double>(values.size() - 1);
  const double half = students_t_quantile(degrees, 0.975) * standard_error(influence);
  return {mean, Interval{mean - half, mean + half}};
}

std::optional<Estimate> psnr_estimate(std::span<const double> squared_errors, double peak) {
  check_peak(peak);
  check_finite(squared_errors, "squared errors");
  for (const double error : squared_errors)
    if (error < 0) fail("{} is no squared error: none is negative", error);
  const Estimate mean = mean_estimate(squared_errors);
  if (mean.value == 0) return std::nullopt;
  const double db = 10 * std::log10(peak * peak / mean.value);
  if (!mean.interval) return Estimate{db, {}};
  const double half = 10 / std::numbers::ln10 * (mean.interval->high - mean.value) / mean.value;
  return Estimate{db, Interval{db - half, db + half}};
}

double frechet_distance(std::span<const double> mean1, std::span<const double> covariance1,
                        std::span<const double> mean2, std::span<const double> covariance2) {
  if (mean1.size() != mean2.size())
    fail("features of width {} cannot be compared with features of width {}", mean1.size(), mean2.size());
  if (mean1.empty()) fail("there are no features to compare");
  check_finite(mean1, "first mean");
  check_finite(mean2, "second mean");
  const auto width = static_cast<Eigen::Index>(mean1.size());
  const Matrix c1 = checked_covariance(covariance1, width);
  const Matrix c2 = checked_covariance(covariance2, width);
  root_of_eigenvalues(decompose(c2, Eigen::EigenvaluesOnly).eigenvalues());  // rejects an indefinite second covariance

  const Matrix root1 = root_of(c1);
  const Matrix product = root1 * c2 * root1;
  const Vector cross = root_of_eigenvalues(decompose(product, Eigen::EigenvaluesOnly).eigenvalues());

  const Vector difference =
      Eigen::Map<const Vector>(mean1.data(), width) - Eigen::Map<const Vector>(mean2.data(), width);
  return std::max(0.0, difference.squaredNorm() + c1.trace() + c2.trace() - 2 * cross.sum());
}

double frechet_distance(const FeatureStatistics& a, const FeatureStatistics& b) {
  return frechet_distance(a.mean(), a.covariance(), b.mean(), b.covariance());
}

FrechetSample sample_frechet(std::span<const float> features, std::span<const double> mean,
                             std::span<const double> covariance) {
  const auto width = static_cast<Eigen::Index>(mean.size());
  FeatureStatistics statistics(std::ssize(mean));
  statistics.add(features);
  const std::vector<double> own = statistics.covariance();
  FrechetSample sample{.value = frechet_distance(statistics.mean(), own, mean, covariance), .influence = {}};

  const Matrix c1 = checked_covariance(own, width), root2 = root_of(checked_covariance(covariance, width));
  const Matrix moved = Matrix::Identity(width, width) - root2 * root_of(root2 * c1 * root2, /*inverse=*/true) * root2;
  const Eigen::Map<const Vector> m1(statistics.mean().data(), width), m2(mean.data(), width);
  using FloatMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Matrix rows = Eigen::Map<const FloatMatrix>(features.data(), statistics.count(), width).cast<double>();  // [n, f]
  rows.rowwise() -= m1.transpose();
  Vector influence = 2 * rows * (m1 - m2) + (rows * moved).cwiseProduct(rows).rowwise().sum();
  influence.array() -= influence.mean();
  sample.influence.assign(influence.begin(), influence.end());
  return sample;
}

Estimate frechet_estimate(const FrechetSample& sample) { return around(sample.value, sample.influence); }

Estimate frechet_difference(const FrechetSample& base, const FrechetSample& sample) {
  if (base.influence.size() != sample.influence.size())
    fail("{} images cannot be paired with {}", sample.influence.size(), base.influence.size());
  std::vector<double> difference(base.influence.size());
  std::ranges::transform(sample.influence, base.influence, difference.begin(), std::minus<>());
  return around(sample.value - base.value, difference);
}

Estimate accuracy(std::int64_t correct, std::int64_t total) {
  if (total < 1 || correct < 0 || correct > total) fail("{} of {} is not an accuracy", correct, total);
  const auto n = static_cast<double>(total);
  const double p = static_cast<double>(correct) / n;
  const double z2 = kNormalQuantile * kNormalQuantile;
  const double centre = (p + z2 / (2 * n)) / (1 + z2 / n);
  const double half = kNormalQuantile / (1 + z2 / n) * std::sqrt(p * (1 - p) / n + z2 / (4 * n * n));
  // At the ends of the scale the two terms are equal except for rounding.
  return {p, Interval{correct == 0 ? 0.0 : centre - half, correct == total ? 1.0 : centre + half}};
}

Estimate accuracy_difference(const std::vector<bool>& base, const std::vector<bool>& changed) {
  if (base.size() != changed.size()) fail("{} images cannot be paired with {}", changed.size(), base.size());
  if (base.empty()) fail("there are no images to compare");
  double gained = 0, lost = 0;
  for (std::size_t i = 0; i < base.size(); ++i) {
    gained += !base[i] && changed[i] ? 1 : 0;
    lost += base[i] && !changed[i] ? 1 : 0;
  }
  const auto n = static_cast<double>(base.size());
  // Half an image is added to each cell of the table of pairs.
  const double all = n + 2, centre = (gained - lost) / all;
  const double half = kNormalQuantile * std::sqrt((gained + lost + 1) - all * centre * centre) / all;
  return {(gained - lost) / n, Interval{centre - half, centre + half}};
}

}  // namespace headroom
