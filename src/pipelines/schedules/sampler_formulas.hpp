#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "pipelines/schedules/noise_schedule.hpp"
#include "pipelines/schedules/sampler.hpp"

namespace headroom {

/// A linear combination of the tensors that are available after a call of the denoiser: the sampler's states, the
/// first of which is the sample that the denoiser read; the denoiser's prediction; and fresh noise.
struct LinearForm {
  static constexpr std::size_t kStates = 4, kOutput = kStates, kNoise = kStates + 1, kColumns = kStates + 2;
  std::array<double, kColumns> of{};

  [[nodiscard]] static constexpr LinearForm column(std::size_t column) {
    LinearForm form;
    form.of[column] = 1;
    return form;
  }
};
[[nodiscard]] LinearForm operator+(const LinearForm& a, const LinearForm& b);
[[nodiscard]] LinearForm operator-(const LinearForm& a, const LinearForm& b);
[[nodiscard]] LinearForm operator*(double factor, const LinearForm& a);
[[nodiscard]] LinearForm operator/(const LinearForm& a, double divisor);

/// A sampler as coefficients: after call i of the denoiser, state j becomes next[i][j]. All states but the first
/// start at 0.
struct SamplerTables {
  std::vector<double> timesteps;  ///< [calls], as in NoiseStep
  std::vector<std::array<LinearForm, LinearForm::kStates>> next;
  double noise_scale = 1;  ///< of the initial noise
  NoiseLevel first;        ///< of a sample that starts as an image

  [[nodiscard]] std::int64_t calls() const { return static_cast<std::int64_t>(next.size()); }
  /// Whether the content of a state ever reaches the sample.
  [[nodiscard]] bool uses_state(std::size_t state) const;
  [[nodiscard]] bool uses_noise() const;
  /// [calls]: the weight of each call's prediction in the final sample.
  [[nodiscard]] std::vector<double> answers_in_sample() const;
  /// Whether the column's coefficient in the new state has this value in every call.
  [[nodiscard]] bool is_always(std::size_t state, std::size_t column, double value) const;
};

/// Options of a sampler in addition to its name.
struct SolverOptions {
  std::int64_t order = 2;  ///< for dpm++2m, its SDE and unipc: 1 or 2; for dpm++2s, its SDE and deis: up to 3
  bool uses_heun = false;  ///< solver_type heun of DPM-Solver, instead of midpoint
  bool uses_bh1 = false;   ///< solver_type bh1 of unipc, instead of bh2
  /// The last step has order 1; for dpm++2m, its SDE and deis only if there are fewer than 15 steps.
  bool lower_order_final = true;
  bool euler_at_final = false;                       ///< the last step has order 1 in any case
  std::vector<std::int64_t> disable_corrector = {};  ///< the steps whose result unipc does not correct
  /// The share of euler-ancestral's noise that is fresh, in flow matching.
  double eta = 1;
  double timestep_scaling = 10;     ///< for lcm
  bool has_large_variance = false;  ///< variance_type fixed_large of ddpm, instead of fixed_small
};

/// The tables of a sampler on these levels. sampler_formulas.cpp documents formulas and sources.
[[nodiscard]] SamplerTables make_sampler_tables(Sampler sampler, const NoiseSchedule& schedule,
                                                const SolverOptions& options = {});

}  // namespace headroom
