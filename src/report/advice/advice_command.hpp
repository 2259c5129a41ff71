#pragma once

#include <string>

#include "report/advice/deploy.hpp"

/// Commands that advice names, as HTML: each is one that takes the candidate's model.
namespace headroom {

/// How the quality of a candidate is measured: images of a text-to-image model by `ladder --quality`, a stream that has
/// a teacher by `stream --quality`, one pass of a component, or a model with random weights, by the error that `bench
/// --opt auto` records.
[[nodiscard]] std::string how_to_measure_quality(const Dataset& dataset, const Candidate& candidate);
/// How its work is timed with exact switches, which lose nothing.
[[nodiscard]] std::string how_to_time_exact(const Candidate& candidate);

}  // namespace headroom
