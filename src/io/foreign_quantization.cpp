#include "io/foreign_quantization.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/text/printable.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kOurs = "headroom";  // as `headroom convert` writes it

/// Libraries by the `quant_method` in a config.json. Other methods are reported by that name.
struct Library {
  std::string_view method;
  std::string_view name;
  bool can_dequantize;  ///< diffusers and transformers have dequantize() for it
};
constexpr Library kLibraries[] = {
    {"bitsandbytes", "bitsandbytes", true}, {"torchao", "torchao", true},  {"gguf", "GGUF", true},
    {"quanto", "optimum-quanto", false},    {"gptq", "GPTQ", false},       {"awq", "AWQ", false},
    {"nunchaku_lite", "Nunchaku", false},   {"fp8", "transformers", true}, {"nvfp4", "NVFP4", false}};

/// Suffixes of tensor names that no unquantized network has.
struct QuantizedName {
  std::string_view text;
  std::string_view method;
};
constexpr QuantizedName kQuantizedNames[] = {
    {".SCB", "bitsandbytes"},
    {".absmax", "bitsandbytes"},
    {".quant_map", "bitsandbytes"},
    {".quant_state.bitsandbytes__nf4", "bitsandbytes"},
    {".quant_state.bitsandbytes__fp4", "bitsandbytes"},
    {"_weight_qdata", "torchao"},
    {".weight_qdata", "torchao"},
    {".weight:qdata", "torchao"},
    {".weight._data", "quanto"},
    {".weight._scale", "quanto"},
    {".wscales", "nunchaku_lite"},
    {".g_idx", "gptq"},
    {".qweight", "gptq or awq"},
    {".qzeros", "gptq or awq"},
    {".weight_packed", "compressed-tensors"},
    {".weight_scale_inv", "fp8"},
    {".weight_scale_2", "nvfp4"},
    {".scale_weight", "ComfyUI"},
    {".comfy_quant", "ComfyUI"},
    {"scaled_fp8", "ComfyUI"},
};

[[noreturn]] void refuse(const fs::path& path, const ForeignFormat& format) {
  fail("{} {}", path.native(), sentence_of(format));
}

/// The method in a config.json, in any of its spellings.
std::optional<std::string> method_in(const json& config) {
  if (!config.is_object()) return std::nullopt;
  if (config.contains("compression_config") && config["compression_config"].is_object()) return "compressed-tensors";
  const auto quantization = config.find("quantization_config");
  if (quantization == config.end() || !quantization->is_object()) return std::nullopt;
  if (const auto method = quantization->find("quant_method"); method != quantization->end() && method->is_string())
    return method->get<std::string>();
  for (const auto& [key, value] : quantization->items())  // versions that wrote no method
    if (key.ends_with("load_in_4bit") || key.ends_with("load_in_8bit")) return "bitsandbytes";
  return std::nullopt;
}

std::string sign_of(const std::string& method) {
  return fmt::format("\"quantization_config\" in config.json says \"{}\"", shortened(printable_name(method), 60));
}

/// Whether a weight is not a plain floating-point number.
bool is_coded(const TensorSpec& tensor) {
  return tensor.name.ends_with("weight") && (!is_float(tensor.dtype) || size_of(tensor.dtype) < 2);
}

}  // namespace

std::string sentence_of(const ForeignFormat& format) {
  const auto* const known = std::ranges::find(kLibraries, format.method, &Library::method);
  const bool is_known = known != std::end(kLibraries);
  return fmt::format(
      "was quantized by {} ({}), whose format is not read: give the checkpoint that it was made from{}; --opt int8 "
      "quantizes that when it is loaded",
      is_known ? std::string(known->name) : shortened(printable_name(format.method), 60), format.evidence,
      is_known && known->can_dequantize ? ", or load it in diffusers, call dequantize() and save_pretrained()" : "");
}

std::optional<ForeignFormat> find_foreign_format(const json& config, std::span<const TensorSpec> tensors,
                                                 std::span<const std::string> unread) {
  const std::optional<std::string> method = method_in(config);
  if (method == kOurs) return std::nullopt;
  // The most specific suffix among all tensors: suffixes shared by several libraries come late in the list.
  const QuantizedName* found = std::end(kQuantizedNames);
  std::string_view name;
  const auto look_at = [&](std::string_view tensor) {
    for (const QuantizedName* ending = std::begin(kQuantizedNames); ending != found; ++ending)
      if (tensor.ends_with(ending->text)) {
        found = ending;
        name = tensor;
        return;
      }
  };
  for (const TensorSpec& tensor : tensors) look_at(tensor.name);
  for (const std::string& tensor : unread) look_at(tensor);
  if (method && (found != std::end(kQuantizedNames) || !unread.empty() || std::ranges::any_of(tensors, is_coded)))
    return ForeignFormat{*method, sign_of(*method)};
  if (found == std::end(kQuantizedNames)) return std::nullopt;
  return ForeignFormat{std::string(found->method), fmt::format("its tensor {}", shortened(printable_name(name), 200))};
}

void refuse_foreign_tensors(const fs::path& folder, const json& config, std::span<const TensorSpec> tensors,
                            std::span<const std::string> unread) {
  if (const std::optional<ForeignFormat> format = find_foreign_format(config, tensors, unread)) refuse(folder, *format);
}

void refuse_foreign_files(const fs::path& folder, const json& config) {
  for (const fs::path& path : list_folder(folder)) {
    const std::string name = printable_name(path.filename().native());
    if (name == "quanto_qmap.json") refuse(folder, {"quanto", fmt::format("it holds {}", name)});
  }
  if (const std::optional<std::string> method = method_in(config); method && *method != kOurs)
    refuse(folder, {*method, sign_of(*method)});
}

}  // namespace headroom
