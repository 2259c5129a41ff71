#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/weights_listing.hpp"

namespace headroom {

/// A network among the tensors of a file.
struct NetworkPart {
  std::string prefix;        ///< of its tensors' names; empty if it is alone
  std::string network = {};  ///< "FLUX.1-dev transformer", or why it is none: "not recognized"
  std::string names = {};    ///< whose names the tensors have: "diffusers"; empty if it is not recognized
  /// The class under which it is opened from a file without a configuration: "FluxTransformer2DModel"; empty if it is
  /// not.
  std::string class_name = {};
  std::int64_t tensors = 0;
  std::uint64_t size_bytes = 0;
};

/// Recognizes networks by the names and shapes of their tensors, which are sorted by name. The name of the file is no
/// evidence. A whole checkpoint has a part for each prefix that authors and other programs use.
[[nodiscard]] std::vector<NetworkPart> recognize_networks(std::span<const StoredTensor> tensors);

/// The prefix of the part to which a tensor of a whole checkpoint belongs; empty if its name has none of them.
[[nodiscard]] std::string_view part_prefix(std::string_view name);

}  // namespace headroom
