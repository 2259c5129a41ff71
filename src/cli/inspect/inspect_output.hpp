#pragma once

#include <cstddef>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/inspect/inspect_single_file.hpp"
#include "io/weights_listing.hpp"
#include "measure/tables/printout.hpp"

namespace headroom {

/// What `headroom inspect` prints: networks, dtypes, configurations, the `largest` tensors, metadata and notes.
[[nodiscard]] Printout inspect_tables(const WeightsListing& listing, std::size_t largest,
                                      const FileReport& report = {});
/// The same for --json, with all metadata.
[[nodiscard]] nlohmann::json inspect_json(const WeightsListing& listing, std::size_t largest,
                                          const FileReport& report = {});
/// What it prints of the folder of a pipeline: the network of each part.
[[nodiscard]] Printout parts_tables(const std::map<std::string, WeightsListing>& parts);

}  // namespace headroom
