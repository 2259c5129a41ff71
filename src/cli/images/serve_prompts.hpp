#pragma once

#include <cstddef>

#include "base/switches.hpp"
#include "cli/common.hpp"
#include "cli/images/image_job.hpp"

namespace headroom {

/// Answers requests until the input ends: a line of JSON in, an image in a file, a line of JSON out, in order. A request
/// has the keys of ImageJob, what it does not say being as in `defaults`, and "out", the PNG to write; what it has as
/// "id" is in the answer too. An answer has "out", "seed", "ms" and "stages", or "error", a sentence: a request that
/// cannot be done ends nothing. What of a request has no effect is among the answer's "notes", or with --strict its error. An image is written while the next is made. Limit and what is done about new work are as GeneratorPool has
/// them.
void serve_prompts(const Engine& engine, const SwitchSet& switches, std::size_t memory_limit, NewWork after_the_first,
                   const ImageJob& defaults, const WithoutEffect& without_effect);

}  // namespace headroom
