#pragma once

#include <string>

#include "report/advice/deploy.hpp"

/// Commands that the advice names, as HTML. Each command takes the candidate's model.
namespace headroom {

/// How to measure the quality of a candidate. A text-to-image model is judged by its images (`ladder --quality`). A
/// stream with a teacher is judged by `stream --quality`. One pass of a component, or a model with random weights,
/// is judged by the error that `bench --opt auto` records.
[[nodiscard]] std::string how_to_measure_quality(const Dataset& dataset, const Candidate& candidate);
/// How to time the work of a candidate with exact switches, which lose no quality.
[[nodiscard]] std::string how_to_time_exact(const Candidate& candidate);

}  // namespace headroom
