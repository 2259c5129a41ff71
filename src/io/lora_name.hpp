#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace headroom {

/// Role of a tensor in the update of its module.
enum class LoraPart : std::uint8_t {
  kUp,  ///< LoRA's factors; kMid is the core of a convolution's (LyCORIS' Tucker decomposition)
  kDown,
  kMid,
  kHadaW1A,  ///< LoHa's, two products that are multiplied element by element
  kHadaW1B,
  kHadaT1,
  kHadaW2A,
  kHadaW2B,
  kHadaT2,
  kLokrW1,  ///< LoKr's, two matrices whose Kronecker product is added; each may be in factors
  kLokrW1A,
  kLokrW1B,
  kLokrW2,
  kLokrW2A,
  kLokrW2B,
  kLokrT2,
  kMagnitude,  ///< DoRA's norm of each output (PEFT)
  kDoraScale,  ///< the same of each output or of each input (LyCORIS)
  kAlpha,
  kBias,
  kDifference,
  kBiasDifference,
  kValue,
};
inline constexpr std::size_t kLoraParts = static_cast<std::size_t>(LoraPart::kValue) + 1;

/// A tensor's name, taken apart: "unet.x.lora_A.style.weight".
struct LoraTensorName {
  std::string module = {};  ///< "unet.x", without what PEFT and torch.compile put in front ("base_model.model.")
  LoraPart part = LoraPart::kUp;
  std::string adapter = {};  ///< "style"; empty where the name has none
  bool is_peft = false;      ///< spelled as PEFT spells it, which keeps alphas outside the tensors
};

/// Nothing where the name is not that of an adapter's tensor.
[[nodiscard]] std::optional<LoraTensorName> parse_lora_name(std::string_view name);

/// The kind of adapter that such a tensor belongs to, of those that cannot be folded: "OFT". Empty for all others.
[[nodiscard]] std::string_view unsupported_adapter(std::string_view name);

/// Whether the tensor is the embedding of a textual inversion, which some trainers bundle with the factors.
[[nodiscard]] bool is_bundled_embedding(std::string_view name);

}  // namespace headroom
