#pragma once

#include <filesystem>
#include <string>

#include "base/switches.hpp"
#include "cli/common.hpp"
#include "cli/images/image_job.hpp"
#include "media/png.hpp"

/// The request that `run` stores in a PNG under the keyword "headroom": the job in JSON, with the model, its
/// switches and the version.
namespace headroom {

[[nodiscard]] PngText request_text(const Engine& engine, const SwitchSet& switches, const ImageJob& job);

/// A request read from a PNG.
struct LikeImage {
  ImageJob job;
  std::string switches;  ///< "arena,flash"
};
/// Throws Error if the file was not written by `run`.
[[nodiscard]] LikeImage read_like(const std::filesystem::path& png);

}  // namespace headroom
