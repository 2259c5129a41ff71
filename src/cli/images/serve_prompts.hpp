#pragma once

#include <cstddef>

#include "base/switches.hpp"
#include "cli/common.hpp"
#include "cli/images/image_job.hpp"

namespace headroom {

/// Answers requests until the input ends: a line of JSON in, an image in a file, a line of JSON out, in order. A
/// request has the keys of ImageJob, with missing values taken from `defaults`, and "out", the PNG to write. Its
/// "id" is copied to the answer. An answer has "out", "seed", "ms" and "stages", or "error", a sentence; a failed
/// request does not end the loop. Parts of a request without effect are among the answer's "notes", or with
/// --strict are its error. An image is written while the next is made. The memory limit and the handling of new
/// work are as in GeneratorPool.
void serve_prompts(const Engine& engine, const SwitchSet& switches, std::size_t memory_limit, NewWork after_the_first,
                   const ImageJob& defaults, const WithoutEffect& without_effect);

}  // namespace headroom
