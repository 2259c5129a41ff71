// A libFuzzer target (https://llvm.org/docs/LibFuzzer.html). Any config.json or scheduler_config.json must either be
// read and give a schedule, or be rejected with an Error of one line. Built by cmake/fuzz.cmake; seeds are in
// tests/fuzz/configs.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "base/text/mutated_json_fuzz.hpp"
#include "models/autoencoders/autoencoder_kl.hpp"
#include "models/autoencoders/autoencoder_kl_flux2.hpp"
#include "models/autoencoders/autoencoder_kl_qwen_image.hpp"
#include "models/autoencoders/autoencoder_tiny.hpp"
#include "models/config.hpp"
#include "models/language_models/gpt2.hpp"
#include "models/text_encoders/clip_text.hpp"
#include "models/text_encoders/language_model.hpp"
#include "models/text_encoders/t5_encoder.hpp"
#include "models/transformers/flux.hpp"
#include "models/transformers/flux2.hpp"
#include "models/transformers/flux3.hpp"
#include "models/transformers/qwen_image.hpp"
#include "models/transformers/z_image.hpp"
#include "models/unets/live_stream_unet.hpp"
#include "models/unets/unet2d.hpp"
#include "models/unets/unet2d_condition.hpp"
#include "pipelines/schedules/scheduler.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer requires this name
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  const std::size_t made = headroom::mutate_json(data, size, most, seed);
  return made != 0 ? made : LLVMFuzzerMutate(data, size, most);
}

namespace {

using namespace headroom;

void read_network(const nlohmann::json& config, const std::string& name) {
  if (name == "FluxTransformer2DModel") static_cast<void>(parse_flux_config(config));
  if (name == kFlux2Transformer) static_cast<void>(parse_flux2_config(config));
  if (name == kFlux3Transformer) static_cast<void>(parse_flux3_config(config));
  if (name == kQwenImageTransformer) static_cast<void>(parse_qwen_image_config(config));
  if (name == kZImageTransformer) static_cast<void>(parse_z_image_config(config));
  if (name == "AutoencoderKL" || name == kAutoencoderKLFlux2) static_cast<void>(parse_autoencoder_kl_config(config));
  if (name == "AutoencoderKLQwenImage") static_cast<void>(parse_autoencoder_kl_qwen_image_config(config));
  if (name == "AutoencoderTiny") static_cast<void>(parse_autoencoder_tiny_config(config));
  if (name.starts_with("CLIPTextModel")) static_cast<void>(parse_clip_text_config(config));
  if (name == kQwen25Vl || name == kQwen3 || name == kQwen3Vl) static_cast<void>(parse_language_model_config(config));
  if (name == "GPT2LMHeadModel") static_cast<void>(parse_gpt2_config(config));
  if (name == "T5EncoderModel") static_cast<void>(parse_t5_config(config));
  if (name == "UNet2DConditionModel") static_cast<void>(parse_unet2d_condition_config(config));
  if (name == "UNet2DModel") static_cast<void>(parse_unet2d_config(config));
  if (name == "LiveStreamUNet") static_cast<void>(parse_live_stream_unet_config(config));
}

void read_scheduler(const nlohmann::json& config) {
  const Scheduler scheduler = parse_scheduler(config);
  for (const std::int64_t steps : {1, 2, 7}) {
    constexpr std::int64_t kTokens = 256;
    try {
      HR_CHECK(std::isfinite(scheduler.tables(steps, kTokens).noise_scale));
    } catch (const Error& error) {
      HR_CHECK(error.what()[0] != '\0');
    }
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer requires this name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const nlohmann::json config = parse_json({reinterpret_cast<const char*>(data), size}, "input");
    if (!config.is_object()) return 0;
    const std::string name = config::class_name(config);
    read_network(config, name);
    if (name.ends_with("Scheduler")) read_scheduler(config);
  } catch (const Error& error) {
    const std::string_view message = error.what();
    HR_CHECK(!message.empty() && message.find('\n') == std::string_view::npos);
  }
  return 0;
}
