#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "run/component.hpp"

namespace headroom {

/// The models at and below a folder, whole pipelines before their components; the pass of a pipeline is kWholeRequest.
/// Those that cannot be read are left out, and `broken` gets their Errors. Throws the first of them if there is no
/// other model, and an Error that says what is there instead if there is none at all.
[[nodiscard]] std::vector<FoundComponent> find_models(const std::filesystem::path& folder,
                                                      std::vector<std::string>& broken);

}  // namespace headroom
