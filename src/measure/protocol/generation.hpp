#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "measure/results/result.hpp"
#include "measure/statistics/trials.hpp"
#include "pipelines/generator.hpp"

namespace headroom {

/// Times of a stage, in each generation that counts.
struct StageTimes {
  std::string name;
  Trials runs;
};

/// So many generations are timed where a step cache makes a trial of steps out of each, unless fewer trials are asked for.
inline constexpr std::int64_t kFewestGenerations = 5;

/// Times of whole generations.
struct GenerationTimes {
  /// Of a denoise step, but for the warm-up; with what the machine did meanwhile. With a step cache, of which some steps
  /// take a tenth of others, a trial is the mean over a generation.
  Trials steps;
  Trials images;     ///< of an image: of a whole generation, from prompts to pixels, divided by its images
  Trials prologues;  ///< of what a generation runs outside the loop: prompts, noise, what is hoisted, pixels
  std::vector<StageTimes> stages;  ///< of those generations, in the order they run
  /// For each step the share of all generations in which it was computed, where a step cache decides; empty elsewhere.
  std::vector<double> computed_share = {};
};

/// Times the generations that are made through it, step by step.
class GenerationTimer {
 public:
  /// The first `warmup_steps` steps do not count. `images_when_warm` leaves out the images of generations in which the
  /// warm-up is not yet over.
  GenerationTimer(const Backend& backend, int warmup_steps, bool images_when_warm);

  /// Makes one generation, whose prompts are read anew, and gives its pixels, or nothing where there are none. `on_step`
  /// runs after each step, outside what is timed.
  HostTensor generate(Generator& generator, std::span<const ImageRequest> requests,
                      const std::function<void()>& on_step = {});

  /// Whether so many trials of steps are there, or with a step cache, whose trials are whole generations, a few.
  [[nodiscard]] bool has_steps(std::int64_t trials) const;
  /// How many generations it takes until has_steps().
  [[nodiscard]] std::int64_t generations_for(const Generator& generator, std::int64_t trials) const;
  [[nodiscard]] const GenerationTimes& times() const { return times_; }
  /// The times so far; the timer is spent.
  [[nodiscard]] GenerationTimes take();

 private:
  void add_stage(const StageRun& stage);
  void add_computed_steps(const std::vector<bool>& computed);

  int warmup_steps_;
  bool images_when_warm_;
  std::vector<double> warmup_ms_;
  GenerationTimes times_;
  double generations_ = 0;  // with a step cache
  ConditionsProbe probe_;
};

/// How a generation is timed.
struct GenerationOptions {
  RequestOptions request;  ///< with its switches
  int warmup_steps = 5;    ///< run first and not counted
  int min_trials = 20;     ///< steps to time at least, in as many whole generations as that takes
  bool floors = false;     ///< add_floors() to the result's stages
};

/// Times one configuration: a file of one result with the series "step" (ms of a denoise step), "image" (ms of an
/// image: whole generations, divided by their images, without the generation of the warm-up) and "prologue" (ms of a
/// generation outside its steps), with its plan. Id and name are those of the switches, as far as
/// they are for the device (SwitchSet::for_target).
[[nodiscard]] ResultFile measure_generation(const Pipeline& pipeline, Backend& backend, GenerationOptions options);

/// Times whole requests by the protocol, whose trials are images: their series and those of their steps and stages are
/// without the generations of the warm-up.
[[nodiscard]] GenerationTimes time_requests(Generator& generator, std::span<const ImageRequest> requests,
                                            const Backend& backend, const Protocol& protocol,
                                            const std::function<void(const TrialProgress&)>& on_progress = {});

/// Adds the series of times that measure_generation() speaks of, and one for each stage (ms of a generation).
void add_series(Result& result, const GenerationTimes& times);
/// The same but for the first two.
void add_series_of_parts(Result& result, const GenerationTimes& times);

}  // namespace headroom
