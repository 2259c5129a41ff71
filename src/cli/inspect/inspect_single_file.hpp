#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/weights_listing.hpp"

namespace headroom {

/// A value of a network's configuration.
struct ConfigValue {
  std::string part;  ///< "vae"
  std::string key;
  nlohmann::json value;
  std::string source;  ///< "names and shapes", "SDXL"
};

/// What other commands make of a file without configurations.
struct FileReport {
  std::vector<ConfigValue> configuration;
  std::vector<std::string> notes;  ///< parts that it lacks, and tensors that nothing reads
};

/// Empty for a file that no command opens without a folder.
[[nodiscard]] FileReport report_single_file(const std::filesystem::path& path, const WeightsListing& listing);

}  // namespace headroom
