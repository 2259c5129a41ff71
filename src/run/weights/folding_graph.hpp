#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "ir/graph.hpp"
#include "run/weights/param_update.hpp"

namespace headroom {

/// The inputs of a folding's graph: its params by number, and what is added to one, by number of the term.
[[nodiscard]] std::string param_input(std::size_t param);
[[nodiscard]] std::string term_input(std::size_t param, std::size_t term, std::string_view what);

/// The graph that folds weights, of `weight` (weight_graph() in plan/weight_key.hpp) and of what is added to each of its
/// params, in order; null for nothing. A param is then the sum of what its checkpoint says and of `scale` [1] * `up` `down` of
/// each term (ParamTerm says how products join, and what magnitudes do), computed in f32 and rounded once: where the weight is made of it by a cast or a quantizer, behind layout
/// changes or not, to that, and else to the param's dtype. It names no module, so that foldings that do the same are equal.
[[nodiscard]] Graph folding_graph(const Graph& weight, std::span<const ParamUpdate* const> updates);

}  // namespace headroom
