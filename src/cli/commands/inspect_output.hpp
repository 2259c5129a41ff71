#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>

#include "io/weights_listing.hpp"
#include "measure/tables/printout.hpp"

namespace headroom {

/// What `headroom inspect` prints: networks, dtypes, the `largest` tensors, metadata and notes.
[[nodiscard]] Printout inspect_tables(const WeightsListing& listing, std::size_t largest);
/// The same for --json, with all metadata.
[[nodiscard]] nlohmann::json inspect_json(const WeightsListing& listing, std::size_t largest);

}  // namespace headroom
