#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "models/adapter_names.hpp"
#include "models/named_shapes.hpp"

namespace headroom {

/// The module names of CLIP's text encoder in adapter files with these prefixes, and in checkpoints of OpenCLIP, where
/// one matmul computes queries, keys and values.
[[nodiscard]] AdapterNames clip_text_names(std::vector<std::string_view> prefixes);
/// The configuration of a checkpoint in names of transformers or OpenCLIP. The number of heads is null unless heads of
/// 64 fit, as in all published models; activation, class and the id that ends a text are not in it.
[[nodiscard]] nlohmann::json infer_clip_text_config(const NamedShapes& shapes);

}  // namespace headroom
