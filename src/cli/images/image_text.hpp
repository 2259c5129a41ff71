#pragma once

#include <filesystem>
#include <string>

#include "base/switches.hpp"
#include "cli/common.hpp"
#include "cli/images/image_job.hpp"
#include "media/png.hpp"

/// What `run` writes into a PNG of the request behind it, under the keyword "headroom": the job in JSON, with the
/// model, its switches and the version.
namespace headroom {

[[nodiscard]] PngText request_text(const Engine& engine, const SwitchSet& switches, const ImageJob& job);

/// A request as a PNG tells it.
struct LikeImage {
  ImageJob job;
  std::string switches;  ///< "arena,flash"
};
/// Throws Error where `run` has not written the file.
[[nodiscard]] LikeImage read_like(const std::filesystem::path& png);

}  // namespace headroom
