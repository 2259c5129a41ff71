#include "pipelines/schedules/calibrate_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/tensors/divide_up.hpp"
#include "passes/step_caches/step_cache.hpp"
#include "pipelines/generator.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kMostCalls = 128;  // the time of a search grows with their fourth power

/// The difference of latents from others over several generations: relative L2.
struct Distance {
  double difference = 0, norm = 0;  // sums of squares

  void add(const HostTensor& actual, const HostTensor& expected) {
    const std::span<const float> a = actual.as<float>(), e = expected.as<float>();
    HR_CHECK_EQ(a.size(), e.size());
    for (std::size_t i = 0; i < e.size(); ++i) {
      const double value = e[i], error = a[i] - value;
      difference += error * error;
      norm += value * value;
    }
  }
  [[nodiscard]] double relative_l2() const { return std::sqrt(difference / norm); }
};

/// Sums over generations, from which a LoopRecord is computed.
class Recorder {
 public:
  explicit Recorder(std::size_t calls) : calls_(calls), products_(calls * calls, 0.0) {}

  /// Adds the `velocities` [calls, elements] of a loop that ended with `latents`.
  void add(const HostTensor& velocities, const HostTensor& latents) {
    const std::span<const float> all = velocities.as<float>();
    const std::size_t elements = all.size() / calls_;
    const auto row = [&](std::size_t call) { return all.subspan(call * elements, elements); };
    for (std::size_t a = 0; a < calls_; ++a)
      for (std::size_t b = 0; b <= a; ++b) products_[a * calls_ + b] += dot(row(a), row(b));
    sample_ += dot(latents.as<float>(), latents.as<float>());
  }

  /// Inner products relative to that of the sample.
  [[nodiscard]] LoopRecord record(const SamplerTables& tables) const {
    LoopRecord record{.levels = tables.timesteps, .weights = tables.answers_in_sample(), .products = products_};
    for (std::size_t a = 0; a < calls_; ++a)
      for (std::size_t b = 0; b <= a; ++b)
        record.products[a * calls_ + b] = record.products[b * calls_ + a] = products_[a * calls_ + b] / sample_;
    if (!std::ranges::all_of(record.products, [](double product) { return std::isfinite(product); }))
      fail("what the denoiser answers, or what comes of it, is not finite");
    return record;
  }

 private:
  static double dot(std::span<const float> a, std::span<const float> b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0, std::plus<>(),
                              [](double x, double y) { return x * y; });
  }

  std::size_t calls_;
  std::vector<double> products_;
  double sample_ = 0;
};

class Calibrator {
 public:
  Calibrator(const Pipeline& pipeline, Backend& backend, WeightStore& weights, const RequestOptions& options,
             std::uint64_t seed, const CalibrationObserver& observer)
      : pipeline_(pipeline),
        backend_(backend),
        weights_(weights),
        options_(options),
        seed_(seed),
        observer_(observer),
        tables_(pipeline.sampler_tables(pipeline.resolve(options))),
        calls_(tables_.next.size()) {}

  MeasuredSchedules run(std::int64_t images, std::int64_t probed_images) {
    const std::int64_t generations = divide_up(images, options_.images);
    const std::int64_t probed_at_once = std::min(options_.images, probed_images);
    const std::int64_t probes = divide_up(probed_images, probed_at_once);
    begin("whole loops", generations + probes);
    const LoopRecord record = record_loops(generations);
    options_.images = probed_at_once;
    const LoopRecord of_probed = record_loops(probes, &whole_);

    begin("one step skipped", (std::ssize(tables_.next) - 1) * probes);
    std::vector<double> feedback(calls_, 1.0);
    for (std::size_t call = 1; call < calls_; ++call) {
      std::string digits(calls_, '1');
      digits[call] = '0';
      const double error = error_under(digits), alone = error_of_schedule(of_probed, digits);
      if (alone > 0) feedback[call] = error / alone;
    }
    return choose(candidate_schedules(record, feedback));
  }

 private:
  void begin(std::string_view phase, std::int64_t loops) {
    phase_ = phase;
    done_ = 0;
    total_ = loops * std::ssize(tables_.next);
    if (observer_) observer_(phase_, done_, total_);
  }

  HostTensor generate(Generator& generator, std::int64_t generation) {
    const std::vector<ImageRequest> images =
        make_image_requests(pipeline_, generation * options_.images, options_.images, seed_);
    return generator.generate(images, [&](std::int64_t, double) {
      ++done_;
      if (observer_) observer_(phase_, done_, total_);
    });
  }

  LoopRecord record_loops(std::int64_t generations, std::vector<HostTensor>* kept = nullptr) {
    RequestOptions options = options_;
    options.records_velocities = true;
    Generator generator(pipeline_, backend_, weights_, options);
    Recorder recorder(calls_);
    for (std::int64_t i = 0; i < generations; ++i) {
      HostTensor latents = generate(generator, i);
      recorder.add(generator.session().output(std::string(kVelocities)), latents);
      if (kept != nullptr) kept->push_back(std::move(latents));
    }
    return recorder.record(tables_);
  }

  double error_under(const std::string& digits) {
    RequestOptions options = options_;
    options.switches = options_.switches.with(
        SwitchSet::parse(fmt::format("meancache={}:schedule={}", std::ranges::count(digits, '1'), digits)));
    Generator generator(pipeline_, backend_, weights_, options);
    Distance distance;
    for (std::size_t i = 0; i < whole_.size(); ++i)
      distance.add(generate(generator, static_cast<std::int64_t>(i)), whole_[i]);
    const double error = distance.relative_l2();
    if (!std::isfinite(error)) fail("latents are not finite where the steps {} are computed", digits);
    return error;
  }

  MeasuredSchedules choose(const std::vector<std::vector<std::string>>& candidates) {
    std::int64_t loops = 0;
    for (const std::vector<std::string>& of_number : candidates) loops += std::ssize(of_number);
    begin("schedules", loops * std::ssize(whole_));
    MeasuredSchedules chosen;
    for (const std::vector<std::string>& of_number : candidates) {
      std::vector<StepSchedule> measured;
      for (const std::string& digits : of_number) measured.push_back({.digits = digits, .error = error_under(digits)});
      chosen.spread_errors.push_back(measured.front().error);
      chosen.best.push_back(*std::ranges::min_element(measured, {}, &StepSchedule::error));
    }
    return chosen;
  }

  const Pipeline& pipeline_;
  Backend& backend_;
  WeightStore& weights_;
  RequestOptions options_;
  std::uint64_t seed_;
  const CalibrationObserver& observer_;
  SamplerTables tables_;
  std::size_t calls_;
  std::vector<HostTensor> whole_;  // latents of the probed images by generation, with every call computed
  std::string_view phase_;
  std::int64_t done_ = 0, total_ = 0;  // steps
};

}  // namespace

MeasuredSchedules calibrate_steps(const Pipeline& pipeline, Backend& backend, WeightStore& weights,
                                  const RequestOptions& options, const CalibrationEffort& effort,
                                  const CalibrationObserver& observer) {
  const Request request = pipeline.resolve(options);
  if (request.reference_tokens() != 0) fail_usage("calibration takes requests without an image");
  if (request.calls() < 2 || request.calls() > kMostCalls)
    fail_usage("calibration takes loops with 2 to {} calls of the denoiser; this one has {}", kMostCalls,
               request.calls());
  return Calibrator(pipeline, backend, weights, options, effort.seed, observer)
      .run(effort.images, effort.probed_images);
}

}  // namespace headroom
