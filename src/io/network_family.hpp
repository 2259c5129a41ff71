#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/weights_listing.hpp"

namespace headroom {

/// The memory of weights on a device, by how they are computed, in bytes: all in bf16; matrices in 8 bits with a scale
/// for each row, the rest in bf16; matrices that are stored in blocks packed, the rest in bf16.
struct WeightMemory {
  std::uint64_t bf16 = 0, eight_bits = 0, packed = 0;
  bool has_blocks = false;  ///< else `packed` is `bf16`

  void add(const StoredTensor& tensor);
};

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
  WeightMemory memory = {};
};

/// Recognizes networks by the names and shapes of their tensors, which are sorted by name. The name of the file is no
/// evidence. A whole checkpoint has a part for each prefix that authors and other programs use.
[[nodiscard]] std::vector<NetworkPart> recognize_networks(std::span<const StoredTensor> tensors);

/// The prefix of the part to which a tensor of a whole checkpoint belongs; empty if its name has none of them.
[[nodiscard]] std::string_view part_prefix(std::string_view name);

}  // namespace headroom
