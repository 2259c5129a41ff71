#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "pipelines/schedules/noise_schedule.hpp"
#include "pipelines/schedules/sampler.hpp"

namespace headroom {

/// A linear combination of what a call of the denoiser can see: tensors that the sampler keeps, the first of which is the
/// sample that the denoiser is given, what it answered, and fresh noise.
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

/// A sampler as numbers: after call i of the denoiser state j becomes next[i][j]. States but the first start at 0.
struct SamplerTables {
  std::vector<double> timesteps;  ///< [calls], as NoiseStep has them
  std::vector<std::array<LinearForm, LinearForm::kStates>> next;
  double noise_scale = 1;  ///< of the noise that the sample begins as
  NoiseLevel first;        ///< of the sample that begins as an image

  [[nodiscard]] std::int64_t calls() const { return static_cast<std::int64_t>(next.size()); }
  /// Whether what a state holds ever reaches the sample.
  [[nodiscard]] bool uses_state(std::size_t state) const;
  [[nodiscard]] bool uses_noise() const;
  /// [calls]: how much of what the denoiser answers in each call is in the sample at the end.
  [[nodiscard]] std::vector<double> answers_in_sample() const;
  /// Whether the column's coefficient in the new state is this in every call.
  [[nodiscard]] bool is_always(std::size_t state, std::size_t column, double value) const;
};

/// What a sampler can be told besides its name.
struct SolverOptions {
  std::int64_t order = 2;  ///< of dpm++2m, its SDE and unipc 1 or 2, of dpm++2s, its SDE and deis up to 3
  bool uses_heun = false;  ///< solver_type heun of DPM-Solver's, instead of midpoint
  bool uses_bh1 = false;   ///< solver_type bh1 of unipc, instead of bh2
  /// The last step is of order 1; of dpm++2m, its SDE and deis only where there are fewer than 15.
  bool lower_order_final = true;
  bool euler_at_final = false;                       ///< it is in any case
  std::vector<std::int64_t> disable_corrector = {};  ///< the steps whose result unipc leaves as it is
  double eta = 1;                                    ///< how much of euler-ancestral's noise is fresh, of flow matching
  double timestep_scaling = 10;                      ///< of lcm
  bool has_large_variance = false;                   ///< variance_type fixed_large of ddpm, instead of fixed_small
};

/// The tables of a sampler on these levels. Formulas and their sources stand in sampler_tables.cpp.
[[nodiscard]] SamplerTables make_sampler_tables(Sampler sampler, const NoiseSchedule& schedule,
                                                const SolverOptions& options = {});

}  // namespace headroom
