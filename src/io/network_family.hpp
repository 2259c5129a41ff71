#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/weights_listing.hpp"

namespace headroom {

/// A network among the tensors of a file.
struct NetworkPart {
  std::string prefix;        ///< of its tensors' names; empty if it is alone
  std::string network = {};  ///< "FLUX.1-dev transformer", or why it is none: "not recognized"
  std::string names = {};    ///< whose names the tensors have: "diffusers"; empty if it is not recognized
  std::int64_t tensors = 0;
  std::uint64_t size_bytes = 0;
};

/// Recognizes networks by the names and shapes of their tensors, which are sorted by name. The name of the file is no
/// evidence. A whole checkpoint has a part for each prefix that authors and other programs use.
[[nodiscard]] std::vector<NetworkPart> recognize_networks(std::span<const StoredTensor> tensors);

}  // namespace headroom
