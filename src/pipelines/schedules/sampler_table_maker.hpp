#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "pipelines/schedules/noise_schedule.hpp"
#include "pipelines/schedules/sampler_formulas.hpp"

namespace headroom {

/// Makes the tables of one sampler, call by call. One-step samplers are in sampler_formulas.cpp, whose header comment
/// has all formulas; samplers that keep predictions of earlier steps are in multistep_sampler_formulas.cpp.
class TableMaker {
 public:
  TableMaker(const NoiseSchedule& schedule, const SolverOptions& options)
      : schedule_(schedule), options_(options), steps_(schedule.steps) {}

  [[nodiscard]] SamplerTables make(Sampler sampler);

 private:
  static constexpr LinearForm kSample = LinearForm::column(0), kSecond = LinearForm::column(1),
                              kThird = LinearForm::column(2), kFourth = LinearForm::column(3),
                              kOutput = LinearForm::column(LinearForm::kOutput),
                              kNoise = LinearForm::column(LinearForm::kNoise);

  [[nodiscard]] bool is_flow() const { return schedule_.prediction == Prediction::kFlow; }
  [[nodiscard]] bool is_last(std::size_t i) const { return i + 1 == steps_.size(); }
  [[nodiscard]] std::int64_t all_steps() const { return std::ssize(steps_) + schedule_.skipped; }

  /// m: the image estimate that the denoiser's prediction implies for a sample at this level.
  [[nodiscard]] LinearForm estimate(const NoiseLevel& at, const LinearForm& sample = kSample,
                                    const LinearForm& answer = kOutput) const;
  void add(double timestep, const LinearForm& sample, const LinearForm& second = {}, const LinearForm& third = {},
           const LinearForm& fourth = {});
  void add_step(Sampler sampler, std::size_t i);

  // y and k in the formulas.
  [[nodiscard]] double scale(const NoiseLevel& at) const { return is_flow() ? 1 : at.alpha; }
  [[nodiscard]] double noise_ratio(const NoiseLevel& at) const { return at.sigma / scale(at); }
  /// d, for the sample at this level.
  [[nodiscard]] LinearForm slope(const NoiseLevel& at) const {
    return (kSample / scale(at) - estimate(at)) / noise_ratio(at);
  }

  void add_euler(const NoiseStep& step);
  void add_heun(std::size_t i);
  [[nodiscard]] LinearForm ddim_step(const NoiseStep& step, const LinearForm& sample, const LinearForm& answer) const;
  void add_ddim(const NoiseStep& step) { add(step.timestep, ddim_step(step, kSample, kOutput)); }
  void add_ancestral(const NoiseStep& step);
  void add_ancestral_flow(const NoiseStep& step);
  void add_dpm_sde(const NoiseStep& step);
  void add_ddpm(const NoiseStep& step);
  void add_lcm(std::size_t i);
  void add_tcd(std::size_t i);

  /// e^-h of a step; also defined if the step starts at pure noise or ends at no noise.
  [[nodiscard]] static double decay(const NoiseStep& step) {
    return step.from.alpha * step.to.sigma / (step.to.alpha * step.from.sigma);
  }
  /// h: the length of a step in ln(alpha / sigma); infinite if it starts at pure noise or ends at no noise.
  [[nodiscard]] static double log_distance(const NoiseStep& step) { return -std::log(decay(step)); }
  [[nodiscard]] double step_ratio(std::size_t i) const;
  [[nodiscard]] double weight_of_change(double power, double exponent) const;

  void add_plms(std::size_t i);
  void add_dpm(std::size_t i, bool is_stochastic);
  [[nodiscard]] std::int64_t listed_order(std::int64_t step) const;
  [[nodiscard]] std::int64_t singlestep_order(std::size_t i) const;
  void add_singlestep(std::size_t i, bool is_stochastic);
  [[nodiscard]] std::size_t known_slopes(std::size_t i, std::size_t most) const;
  void add_deis(std::size_t i);
  void add_lms(std::size_t i);

  [[nodiscard]] std::int64_t unipc_order(std::size_t i) const;
  /// Terms that a repeated (corrected) step adds: for m at its end (`of_new`) and for the change of m before it
  /// (`of_change`).
  struct Correction {
    double of_new = 0;
    double of_change = 0;
    bool is_on = false;
  };
  [[nodiscard]] Correction correction(std::size_t i) const;
  void add_unipc(std::size_t i);

  const NoiseSchedule& schedule_;
  const SolverOptions& options_;
  const std::vector<NoiseStep>& steps_;
  SamplerTables tables_;
};

}  // namespace headroom
