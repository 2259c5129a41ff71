#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/common.hpp"
#include "pipelines/streams/stream_model.hpp"
#include "run/forward_pass.hpp"

namespace headroom {

/// What --pass calls the whole of a pipeline, in place of one of its passes: requests, or where programs are looked at
/// the denoise loop.
inline constexpr std::string_view kWholeRequest = "request";

/// What it calls a frame of a live stream, from pixels to pixels.
inline constexpr std::string_view kFrame = "frame";

/// Adds --pass, which names one of a network's passes.
void add_pass_option(CLI::App& command, std::string& pass);

/// The pass that is asked for, with its image so many rows of tokens, or of 64 pixels, higher, lower where that is less
/// than 0; its text is so many tokens shorter.
using PassMaker = std::function<ForwardPass(std::int64_t rows)>;
/// Of the engine's network, which must outlive it; an empty name takes its first. Of a pipeline the denoiser's forward,
/// or a stage (pipelines/stages/stage_pass.hpp). Throws a usage Error for a pass that it lacks, and where the size is not one of
/// what the network works on: pixels of images, tokens of text.
[[nodiscard]] PassMaker asked_passes(const Engine& engine, const std::string& pass, const RequestOptions& request,
                                     const ImageSize& size);

/// A pass as switches make it, of its own size: those of streams, and steps=N, change the graph of a frame.
using SwitchedPassMaker = std::function<ForwardPass(const SwitchSet& switches)>;
/// The same pass as asked_passes() gives, which throws likewise once a pass is made.
[[nodiscard]] SwitchedPassMaker asked_switched_pass(const Engine& engine, const std::string& pass,
                                                    const RequestOptions& request, const ImageSize& size);

/// The stream that frames of the pass kFrame go through, and what it is asked for with.
struct AskedStream {
  std::shared_ptr<const StreamModel> model;
  StreamOptions options;
};
/// Throws a usage Error where the engine's network makes no streams.
[[nodiscard]] AskedStream asked_stream(const Engine& engine, const RequestOptions& request, const ImageSize& size);

/// Of the options of a request, those that change nothing of that pass of it.
[[nodiscard]] std::vector<IdleOption> idle_of_pass(const std::string& pass, const RequestOptions& request);

}  // namespace headroom
