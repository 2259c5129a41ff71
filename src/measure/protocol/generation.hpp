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

/// Times of a stage, one for each counted generation.
struct StageTimes {
  std::string name;
  Trials runs;
};

/// Least number of timed generations if a step cache makes each generation one trial of steps, unless fewer trials
/// are requested.
inline constexpr std::int64_t kFewestGenerations = 5;

/// Times of whole generations.
struct GenerationTimes {
  /// Times of a denoise step, without the warm-up; with the conditions of the machine. With a step cache, some steps
  /// take a tenth of the time of others, so a trial is the mean over one generation.
  Trials steps;
  Trials images;     ///< per image: time of a whole generation, from prompts to pixels, divided by its images
  Trials prologues;  ///< the parts of a generation outside the loop: prompts, noise, hoisted work, pixels
  std::vector<StageTimes> stages;  ///< of those generations, in execution order
  /// For each step the share of all generations in which it was computed, if a step cache decides; otherwise empty.
  std::vector<double> computed_share = {};
};

/// Times generations made through this object, step by step.
class GenerationTimer {
 public:
  /// The first `warmup_steps` steps are not counted. With `images_when_warm`, image times leave out generations that
  /// contain warm-up steps.
  GenerationTimer(const Backend& backend, int warmup_steps, bool images_when_warm);

  /// Makes one generation, with prompts encoded anew, and returns its pixels, or nothing if there are none. `on_step`
  /// runs after each step, outside the timed intervals.
  HostTensor generate(Generator& generator, std::span<const ImageRequest> requests,
                      const std::function<void()>& on_step = {});

  /// Whether there are `trials` trials of steps. With a step cache, whose trials are whole generations, a small
  /// number is enough.
  [[nodiscard]] bool has_steps(std::int64_t trials) const;
  /// The number of generations until has_steps() holds.
  [[nodiscard]] std::int64_t generations_for(const Generator& generator, std::int64_t trials) const;
  [[nodiscard]] const GenerationTimes& times() const { return times_; }
  /// The times so far; the timer must not be used afterwards.
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

/// Options of measure_generation().
struct GenerationOptions {
  RequestOptions request;  ///< with its switches
  int warmup_steps = 5;    ///< run first, not counted
  int min_trials = 20;     ///< least number of steps to time, in whole generations
  bool floors = false;     ///< whether to add_floors() to the result's stages
};

/// Times one configuration. Returns a file with one result, its plan, and these series:
/// - "step": ms of a denoise step;
/// - "image": ms of an image, from whole generations divided by their images, without the warm-up generation;
/// - "prologue": ms of a generation outside its steps.
/// Id and name are the switches, as far as they apply to the device (SwitchSet::for_target).
[[nodiscard]] ResultFile measure_generation(const Pipeline& pipeline, Backend& backend, GenerationOptions options);

/// Times whole requests by `protocol`, whose trials are images. The series of images, steps and stages leave out the
/// warm-up generations.
[[nodiscard]] GenerationTimes time_requests(Generator& generator, std::span<const ImageRequest> requests,
                                            const Backend& backend, const Protocol& protocol,
                                            const std::function<void(const TrialProgress&)>& on_progress = {});

/// Adds the series listed at measure_generation(), and one for each stage (ms of a generation).
void add_series(Result& result, const GenerationTimes& times);
/// The same without the first two.
void add_series_of_parts(Result& result, const GenerationTimes& times);

}  // namespace headroom
