#pragma once

#include "run/model.hpp"
#include "run/session.hpp"

namespace headroom {

/// Fills the inputs of a forward pass (build_flux_forward) with random data from a fixed seed: prompts of the model
/// where it has some, image tokens in rows of `token_columns`, timesteps uniform in [0, 1), everything else normal.
/// Never zeros: they run faster than real data.
void set_forward_inputs(Session& session, const Model& model, std::int64_t token_columns);

}  // namespace headroom
