#pragma once

#include <string>

#include "report/advice/deploy.hpp"

/// Commands that the advice names, as HTML. Each can be run as it is and measures the candidate's work. If the
/// candidate's model cannot be opened by the name in its result, there is no command but a sentence that says so.
namespace headroom {

/// How to measure the quality of a candidate. A text-to-image model is judged by its images (`ladder --quality`). A
/// stream with a teacher is judged by `stream --quality`. One pass of a component, or a model with random weights,
/// is judged by the error that `bench --opt auto` records.
[[nodiscard]] std::string how_to_measure_quality(const Dataset& dataset, const Candidate& candidate);
/// That a candidate was not profiled, and how to do it.
[[nodiscard]] std::string how_to_profile(const Candidate& candidate);
/// How to time the work of a candidate with exact switches, which lose no quality.
[[nodiscard]] std::string how_to_time_exact(const Candidate& candidate);

}  // namespace headroom
