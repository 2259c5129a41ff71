#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "base/switches.hpp"
#include "kernels/core/generated_kernels.hpp"
#include "pipelines/pipeline.hpp"
#include "run/compile.hpp"
#include "run/forward_pass.hpp"

namespace headroom {

/// Compiles a planned program: a whole denoise request, or one forward pass.
using CompileRequest = std::function<Compiled(const SwitchSet& switches)>;
/// The pipeline must outlive the result.
[[nodiscard]] CompileRequest whole_request(const Pipeline& pipeline, const RequestOptions& options,
                                           const DeviceTarget& target);
[[nodiscard]] CompileRequest one_pass(const ForwardPass& pass, const DeviceTarget& target);

/// Bytes of the weights that a program and its setup keep on the device.
[[nodiscard]] std::size_t weight_bytes(const Program& program);

/// What the passes did, how long planning took (again_ms: of further trials), the weights, and the program.
[[nodiscard]] std::string plan_text(const Compiled& compiled, const SwitchSet& switches,
                                    std::span<const double> again_ms, const GeneratedKernels& generated,
                                    bool with_rejections);

}  // namespace headroom
