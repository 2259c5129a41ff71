#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "ir/graph.hpp"
#include "run/weights/param_update.hpp"

namespace headroom {

/// Inputs of a folding graph: its params by index, and the tensors of an update term by index of the param and term.
[[nodiscard]] std::string param_input(std::size_t param);
[[nodiscard]] std::string term_input(std::size_t param, std::size_t term, std::string_view what);

/// The graph that folds `weight` (weight_graph() in plan/weight_key.hpp) with the updates of its params, in order;
/// null for no update. Each param is the sum of the checkpoint's value and of `scale` [1] * `up` `down` of each term;
/// ParamTerm defines joined factors and magnitudes. The sum is computed in f32 and rounded once. If a cast or
/// quantizer makes the weight from the param, with or without layout changes, the rounding is to its result;
/// otherwise to the param's dtype. The graph names no module, so that equal foldings have equal graphs.
[[nodiscard]] Graph folding_graph(const Graph& weight, std::span<const ParamUpdate* const> updates);

}  // namespace headroom
