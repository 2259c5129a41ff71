#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "measure/work/opened_model.hpp"
#include "pipelines/streams/stream_model.hpp"
#include "run/forward_pass.hpp"

namespace headroom {

/// The value of --pass for a whole pipeline instead of one pass: whole requests, or the denoise loop for commands
/// that inspect programs.
inline constexpr std::string_view kWholeRequest = "request";

/// The value of --pass for a frame of a live stream, from input pixels to output pixels.
inline constexpr std::string_view kFrame = "frame";

/// Sets the size of a request in tokens; a side of 0 is left as it is. Throws a usage Error for pixel sizes that are
/// not multiples of the denoiser's tokens.
void resolve_size(const Pipeline& pipeline, const ImageSize& size, RequestOptions& request);

/// Makes the requested pass with `rows` more rows of image tokens (or of 64 pixels each), or fewer if it is
/// negative. A text pass gets that many tokens fewer instead.
using PassMaker = std::function<ForwardPass(std::int64_t rows)>;
/// The passes of the model's network, which must outlive the result. An empty name selects the first pass. For a
/// pipeline, `pass` is the denoiser's forward or a stage (pipelines/stages/stage_pass.hpp). Throws a usage Error
/// for an unknown pass, and for a size that does not apply to the network (pixels for images, tokens for text).
[[nodiscard]] PassMaker asked_passes(const OpenedModel& model, const std::string& pass, const RequestOptions& request,
                                     const ImageSize& size);

/// Makes a pass of its own size under given switches: those of streams, and steps=N, change the graph of a frame.
using SwitchedPassMaker = std::function<ForwardPass(const SwitchSet& switches)>;
/// The same pass as asked_passes() returns. It throws the same errors, but only when a pass is made.
[[nodiscard]] SwitchedPassMaker asked_switched_pass(const OpenedModel& model, const std::string& pass,
                                                    const RequestOptions& request, const ImageSize& size);

/// The stream for frames of the pass kFrame, and the request for it.
struct AskedStream {
  std::shared_ptr<const StreamModel> model;
  StreamOptions options;
};
/// Throws a usage Error if the model's network cannot process streams.
[[nodiscard]] AskedStream asked_stream(const OpenedModel& model, const RequestOptions& request, const ImageSize& size);

/// The given options of a request that have no effect on this pass.
[[nodiscard]] std::vector<IdleOption> idle_of_pass(const OpenedModel& model, const std::string& pass,
                                                   const RequestOptions& request, const ImageSize& size);

}  // namespace headroom
