#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "base/switches.hpp"
#include "run/component.hpp"

namespace headroom {

/// What a conversion made.
struct Conversion {
  std::vector<std::string> computed;  ///< modules whose products run in int8 under the switch
  std::vector<std::string> stored;    ///< modules whose weights are only kept in i8: widened when they are loaded
  std::uint64_t fp32_bytes = 0;       ///< of the tensors, were they all in f32
  std::uint64_t bytes = 0;            ///< of the tensors as written
};

/// Writes `component` with its weights as `int8` quantizes them to the new folder `out`: `x.weight` in i8 and
/// `x.weight_scale` in f32, one for each row, for all that the switch computes in int8 and for modulations;
/// the rest as the checkpoint holds it, or in bf16 where `switches` has bf16 too. config.json gets a `quantization_config`,
/// and the files beside the checkpoint are copied (FolderCopy). Where the component is a part of a pipeline, whose folder is then given, `out` is
/// a copy of that with the part in it. The folder appears whole or not at all.
/// Throws a usage Error where `switches` is not int8 alone or with bf16, Error where `out` exists, the component is
/// quantized already, or a file cannot be written.
Conversion convert_checkpoint(const Component& component, Backend& backend, const SwitchSet& switches,
                              const std::filesystem::path& out, const std::filesystem::path& pipeline = {},
                              const std::function<void(std::size_t done, std::size_t total)>& observer = {});

}  // namespace headroom
