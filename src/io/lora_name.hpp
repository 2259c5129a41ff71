#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace headroom {

/// Role of a tensor in the update of its module.
enum class LoraPart : std::uint8_t {
  kUp,  ///< factors of LoRA; kMid is the core of a convolution (LyCORIS' Tucker decomposition)
  kDown,
  kMid,
  kHadaW1A,  ///< LoHa: two matrices in factors, multiplied elementwise
  kHadaW1B,
  kHadaT1,
  kHadaW2A,
  kHadaW2B,
  kHadaT2,
  kLokrW1,  ///< LoKr: two matrices whose Kronecker product is added; each may be in factors
  kLokrW1A,
  kLokrW1B,
  kLokrW2,
  kLokrW2A,
  kLokrW2B,
  kLokrT2,
  kMagnitude,  ///< DoRA: norm of each output (PEFT)
  kDoraScale,  ///< the same for each output or each input (LyCORIS)
  kAlpha,
  kBias,
  kDifference,
  kBiasDifference,
  kValue,
};
inline constexpr std::size_t kLoraParts = static_cast<std::size_t>(LoraPart::kValue) + 1;

/// The parts of a tensor's name such as "unet.x.lora_A.style.weight".
struct LoraTensorName {
  std::string module = {};  ///< "unet.x", without prefixes of PEFT and torch.compile ("base_model.model.")
  LoraPart part = LoraPart::kUp;
  std::string adapter = {};  ///< "style"; empty if the name has none
  bool is_peft = false;      ///< in PEFT's spelling, which keeps alphas outside the tensors
};

/// Parses a name; empty if it is not that of an adapter's tensor.
[[nodiscard]] std::optional<LoraTensorName> parse_lora_name(std::string_view name);

/// The kind of adapter of such a tensor if it cannot be folded: "OFT". Empty for all others.
[[nodiscard]] std::string_view unsupported_adapter(std::string_view name);

/// Whether the tensor is the embedding of a textual inversion, which some trainers bundle with the factors.
[[nodiscard]] bool is_bundled_embedding(std::string_view name);

}  // namespace headroom
