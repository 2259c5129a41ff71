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

/// The result of a conversion.
struct Conversion {
  std::vector<std::string> computed;  ///< modules whose matmuls run in int8 under the switch
  /// Modules whose weights are only stored in i8, and widened when they are loaded.
  std::vector<std::string> stored;
  std::uint64_t fp32_bytes = 0;  ///< of the tensors, if all were f32
  std::uint64_t bytes = 0;       ///< of the tensors as written
};

/// Writes `component` to the new folder `out` with weights quantized as by the switch `int8`: `x.weight` in i8 and
/// `x.weight_scale` in f32, one scale per row. This covers all weights that the switch computes in int8, and
/// modulations. Other weights keep the checkpoint's dtype, or become bf16 if `switches` includes bf16. config.json
/// gets a `quantization_config`, and other files of the checkpoint's folder are copied (FolderCopy).
/// If the component is part of a pipeline, `pipeline` is that pipeline's folder, and `out` is a copy of it with the
/// new part. The folder appears complete or not at all.
/// Throws a usage Error if `switches` is not int8, alone or with bf16. Throws Error if `out` exists, if the component
/// is already quantized, or if a file cannot be written.
Conversion convert_checkpoint(const Component& component, Backend& backend, const SwitchSet& switches,
                              const std::filesystem::path& out, const std::filesystem::path& pipeline = {},
                              const std::function<void(std::size_t done, std::size_t total)>& observer = {});

}  // namespace headroom
