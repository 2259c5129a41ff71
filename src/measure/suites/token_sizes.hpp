#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "measure/results/result.hpp"

namespace headroom {

/// A request's number under `key`; empty if it has none.
[[nodiscard]] std::optional<double> request_number(const Subject& subject, const std::string& key);
/// Image tokens of a request: "image_tokens", or rows times columns.
[[nodiscard]] std::optional<double> image_tokens_of(const Subject& subject);

/// Width in pixels of an image token of each model. Results of peers do not give it, and neither do those of older
/// versions. Then it comes from another result of the model, or from the models known to this program
/// (`headroom models`).
class TokenSizes {
 public:
  void add(const ResultFile& file);
  /// For a subject of an added file.
  [[nodiscard]] std::optional<std::int64_t> of(const Subject& subject);

 private:
  std::map<std::string, std::optional<std::int64_t>> by_name_;
  std::map<std::string, std::int64_t> parameters_;  ///< by name
};

}  // namespace headroom
