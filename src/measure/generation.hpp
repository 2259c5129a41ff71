#pragma once

#include "backends/backend.hpp"
#include "measure/result.hpp"
#include "run/generator.hpp"
#include "run/model.hpp"

namespace headroom {

/// How a generation is timed.
struct GenerationOptions {
  GeneratorOptions request;  ///< with its switches
  int warmup_steps = 5;      ///< run first and not counted
  int min_trials = 20;       ///< steps to time at least, in as many whole generations as that takes
};

/// Times one configuration: a file of one result with the series "step" (ms of a denoise step), "image" (ms of an
/// image: whole generations, divided by their images, without the generation of the warm-up) and, where something runs
/// outside the loop, "prologue" (ms of a generation), with its plan. Id and name are those of the switches.
[[nodiscard]] ResultFile measure_generation(const Model& model, Backend& backend, const GenerationOptions& options);

}  // namespace headroom
