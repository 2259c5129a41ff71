#include "io/lora_file.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/printable.hpp"

namespace headroom {
namespace {

enum class Part : std::uint8_t { kUp, kDown, kAlpha, kBias, kDifference, kBiasDifference, kValue };

/// What a tensor's name ends in, the longer ends first.
struct Suffix {
  std::string_view text;
  Part part;
};
constexpr std::array kSuffixes = {
    Suffix{".lora_linear_layer.down.weight", Part::kDown},
    Suffix{".lora_linear_layer.up.weight", Part::kUp},
    Suffix{".lora_A.default.weight", Part::kDown},
    Suffix{".lora_B.default.weight", Part::kUp},
    Suffix{".lora.down.weight", Part::kDown},
    Suffix{".lora.up.weight", Part::kUp},
    Suffix{".lora_A.weight", Part::kDown},
    Suffix{".lora_B.weight", Part::kUp},
    Suffix{".lora_B.bias", Part::kBias},
    Suffix{".lora_down.weight", Part::kDown},
    Suffix{".lora_up.weight", Part::kUp},
    Suffix{".down.weight", Part::kDown},
    Suffix{".up.weight", Part::kUp},
    Suffix{".alpha", Part::kAlpha},
    Suffix{".diff_b", Part::kBiasDifference},
    Suffix{".diff", Part::kDifference},
};
/// Gains of norms, which files of Black Forest Labs hold whole.
constexpr std::array<std::string_view, 2> kGains = {".query_norm.scale", ".key_norm.scale"};

/// Kinds of adapters that are more than a product of two factors, by what names of their tensors hold.
struct OtherKind {
  std::string_view mark;
  std::string_view kind;
};
constexpr std::array kOtherKinds = {
    OtherKind{"dora_scale", "DoRA"},  OtherKind{"lora_magnitude_vector", "DoRA"},
    OtherKind{"lokr_", "LoKr"},       OtherKind{"hada_", "LoHa"},
    OtherKind{"oft_", "OFT"},         OtherKind{"boft_", "BOFT"},
    OtherKind{"glora_", "GLoRA"},     OtherKind{"lora_mid", "LoCon with a third factor"},
    OtherKind{"vera_lambda", "VeRA"}, OtherKind{"ia3_", "IA3"},
};

/// What the header says of ranks and alphas, as PEFT does, by part of a pipeline ("transformer").
class Metadata {
 public:
  Metadata(const SafetensorsMetadata& metadata, std::string context) : context_(std::move(context)) {
    const auto found = metadata.find("lora_adapter_metadata");
    if (found == metadata.end()) return;
    values_ = parse_json(found->second, context_);
    if (!values_.is_object()) fail("{}: expected a JSON object", context_);
    for (const auto& [key, value] : values_.items())
      if (key.ends_with(".use_dora") && value == true)
        fail("{}: {} is true: DoRA is not supported, only products of two factors are", context_, printable_name(key));
  }

  /// The scale of a module's product of that rank; nothing where the header says none.
  [[nodiscard]] std::optional<double> scale(std::string_view module, std::int64_t rank) const {
    const std::size_t dot = module.find('.');
    if (dot == std::string_view::npos) return std::nullopt;
    const std::string part(module.substr(0, dot + 1));
    if (!values_.contains(part + "lora_alpha")) return std::nullopt;
    double alpha = get_double(values_, part + "lora_alpha", context_);
    if (const auto patterns = values_.find(part + "alpha_pattern"); patterns != values_.end())
      alpha = pattern_value(*patterns, module.substr(dot + 1)).value_or(alpha);
    const auto width = static_cast<double>(rank);
    return alpha / (get_bool_or(values_, part + "use_rslora", false, context_) ? std::sqrt(width) : width);
  }

 private:
  /// Of the keys that are the module or an end of it the longest; with ^ in front, the module alone. PEFT takes them for
  /// regular expressions, and writes names.
  [[nodiscard]] std::optional<double> pattern_value(const nlohmann::json& patterns, std::string_view module) const {
    if (!patterns.is_object()) fail("{}: a pattern of alphas is no object", context_);
    std::optional<double> value;
    std::size_t longest = 0;
    for (const auto& [key, alpha] : patterns.items()) {
      const bool is_whole = key.starts_with('^');
      const std::string_view name = std::string_view(key).substr(is_whole ? 1 : 0);
      if (name.find_first_of("*+?()[]{}|\\$^") != std::string_view::npos)
        fail("{}: '{}' in a pattern of alphas is a regular expression, expected the name of a module", context_,
             printable_name(key));
      const bool is_end = module.ends_with(name) && !is_whole && module.size() > name.size() &&
                          module[module.size() - name.size() - 1] == '.';
      if ((module != name && !is_end) || name.size() < longest) continue;
      longest = name.size();
      value = get_double(patterns, key, context_);
    }
    return value;
  }

  std::string context_;
  nlohmann::json values_ = nlohmann::json::object();
};

/// A module while its tensors are being found.
struct Found {
  LoraModule module;
  std::optional<FileTensor> alpha;
};

class Reader {
 public:
  explicit Reader(const SafetensorsFile& file)
      : file_(file), metadata_(file.metadata(), path() + ": lora_adapter_metadata") {}

  [[nodiscard]] std::vector<LoraModule> read() {
    for (const auto& [name, entry] : file_.entries()) add(name, entry);
    std::vector<LoraModule> modules;
    for (auto& [name, found] : found_) modules.push_back(finish(std::move(found)));
    if (modules.empty()) fail("{} holds no tensors, expected those of a LoRA", path());
    return modules;
  }

 private:
  [[nodiscard]] std::string path() const { return file_.path().string(); }
  /// "a.safetensors: tensor 'x' f16[4, 8]"
  [[nodiscard]] std::string describe(const FileTensor& tensor) const {
    return fmt::format("{}: tensor '{}' {}{}", path(), printable_name(tensor.name), tensor.dtype, tensor.shape);
  }

  void add(const std::string& name, const SafetensorsEntry& entry) {
    for (const OtherKind& other : kOtherKinds)
      if (name.find(other.mark) != std::string::npos)
        fail("{}: tensor '{}' belongs to a {}, which is not supported: only LoRA is, products of two factors", path(),
             printable_name(name), other.kind);
    const FileTensor tensor{.name = name, .dtype = entry.dtype, .shape = entry.shape, .bytes = file_.bytes(name)};
    const auto known =
        std::ranges::find_if(kSuffixes, [&](const Suffix& suffix) { return name.ends_with(suffix.text); });
    const bool is_gain = std::ranges::any_of(kGains, [&](std::string_view end) { return name.ends_with(end); });
    if (!is_gain && known == kSuffixes.end())
      fail("{} is no part of a LoRA: expected a name that ends in lora_A.weight, lora_down.weight, alpha, ...",
           describe(tensor));
    constexpr std::size_t kScale = std::string_view(".scale").size();
    const std::string module = name.substr(0, name.size() - (is_gain ? kScale : known->text.size()));
    if (!is_float(entry.dtype) || size_of(entry.dtype) < 2)
      fail("{} is not of a dtype that factors have: F16, BF16 or F32", describe(tensor));
    Found& found = found_[module];
    found.module.name = module;
    put(found, is_gain ? Part::kValue : known->part, tensor);
  }

  void put(Found& found, Part part, const FileTensor& tensor) const {
    LoraModule& module = found.module;
    std::optional<FileTensor>* const places[] = {&module.up,   &module.down,       &found.alpha,
                                                 &module.bias, &module.difference, &module.bias_difference,
                                                 &module.value};
    std::optional<FileTensor>& place = *places[static_cast<std::size_t>(part)];
    if (place) fail("{} says again what '{}' says", describe(tensor), printable_name(place->name));
    place = tensor;
  }

  [[nodiscard]] LoraModule finish(Found found) const {
    LoraModule module = std::move(found.module);
    if (module.up.has_value() != module.down.has_value())
      fail("{} has no other factor to be multiplied with", describe(module.up ? *module.up : *module.down));
    if (!module.up) {
      const std::optional<FileTensor>& alone = found.alpha ? found.alpha : module.bias;
      if (alone) fail("{} has no factors beside it", describe(*alone));
      return module;
    }
    make_matrix(*module.up, /*is_filter=*/false);
    make_matrix(*module.down, /*is_filter=*/true);
    const std::int64_t rank = module.down->shape[0];
    if (rank == 0 || module.up->shape[1] != rank)
      fail("{} does not fit '{}', which is {}: the rank, {} and {}, must be the same", describe(*module.up),
           printable_name(module.down->name), module.down->shape, module.up->shape[1], rank);
    if (module.bias && !(module.bias->shape == Shape{module.up->shape[0]}))
      fail("{} does not fit '{}', which is {}", describe(*module.bias), printable_name(module.up->name),
           module.up->shape);
    module.scale = scale(module, found.alpha, rank);
    return module;
  }

  /// [n, k] of a 1x1 convolution's [n, k, 1, 1] as well, and [n, k h w] of a filter's [n, k, h, w].
  void make_matrix(FileTensor& factor, bool is_filter) const {
    const Shape& shape = factor.shape;
    const bool is_pointwise = shape.rank() == 4 && shape[2] == 1 && shape[3] == 1;
    if (is_pointwise || (is_filter && shape.rank() == 4))
      factor.shape = Shape{shape[0], shape[1] * shape[2] * shape[3]};
    if (factor.shape.rank() != 2) fail("{} is no matrix", describe(factor));
  }

  [[nodiscard]] double scale(const LoraModule& module, const std::optional<FileTensor>& alpha,
                             std::int64_t rank) const {
    if (!alpha) return metadata_.scale(module.name, rank).value_or(1);
    if (alpha->shape.numel() != 1) fail("{} is an alpha, expected one number", describe(*alpha));
    const double value = load_as_double(alpha->bytes.data(), alpha->dtype);
    if (!std::isfinite(value)) fail("{} is {}, expected a number", describe(*alpha), value);
    return value / static_cast<double>(rank);
  }

  const SafetensorsFile& file_;
  Metadata metadata_;
  std::map<std::string, Found> found_;  // by module
};

}  // namespace

LoraFile LoraFile::open(const std::filesystem::path& path) {
  LoraFile lora(std::make_shared<const SafetensorsFile>(SafetensorsFile::open(path)));
  // Every tensor of such a file is part of a factor: one that cannot be read may not be left out.
  if (!lora.file_->unread().empty()) static_cast<void>(lora.file_->entry(lora.file_->unread().begin()->first));
  lora.modules_ = Reader(*lora.file_).read();
  return lora;
}

}  // namespace headroom
