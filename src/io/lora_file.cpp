#include "io/lora_file.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "base/text/printable.hpp"
#include "io/lora_name.hpp"
#include "io/lora_scales.hpp"

namespace headroom {
namespace {

/// The tensors of a module.
class Parts {
 public:
  [[nodiscard]] std::optional<FileTensor>& operator[](LoraPart part) { return parts_[static_cast<std::size_t>(part)]; }
  [[nodiscard]] const std::optional<FileTensor>& operator[](LoraPart part) const {
    return parts_[static_cast<std::size_t>(part)];
  }
  /// The first of `parts` that exists, or null.
  [[nodiscard]] const FileTensor* any_of(std::span<const LoraPart> parts) const {
    const auto there = std::ranges::find_if(parts, [&](LoraPart part) { return (*this)[part].has_value(); });
    return there == parts.end() ? nullptr : &*(*this)[*there];
  }

 private:
  std::array<std::optional<FileTensor>, kLoraParts> parts_;
};

constexpr std::array kLoraFactors = {LoraPart::kUp, LoraPart::kDown, LoraPart::kMid};
constexpr std::array kLohaFactors = {LoraPart::kHadaW1A, LoraPart::kHadaW1B, LoraPart::kHadaT1,
                                     LoraPart::kHadaW2A, LoraPart::kHadaW2B, LoraPart::kHadaT2};
constexpr std::array kLokrFactors = {LoraPart::kLokrW1,  LoraPart::kLokrW1A, LoraPart::kLokrW1B, LoraPart::kLokrW2,
                                     LoraPart::kLokrW2A, LoraPart::kLokrW2B, LoraPart::kLokrT2};
constexpr std::array kNeedFactors = {LoraPart::kAlpha, LoraPart::kBias, LoraPart::kMagnitude, LoraPart::kDoraScale};

/// A transposed copy [k, n] of a matrix [n, k], with its owner.
std::pair<FileTensor, std::shared_ptr<const void>> transposed(const FileTensor& tensor) {
  const std::int64_t rows = tensor.shape[0], columns = tensor.shape[1];
  const auto copy = std::make_shared<std::vector<std::byte>>(tensor.bytes.size());
  const std::size_t element = size_of(tensor.dtype);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      std::ranges::copy(tensor.bytes.subspan(static_cast<std::size_t>(i * columns + j) * element, element),
                        copy->begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(j * rows + i) * element));
  FileTensor turned = tensor;
  turned.shape = Shape{columns, rows};
  turned.bytes = *copy;
  return {std::move(turned), copy};
}

class Reader {
 public:
  explicit Reader(const SafetensorsFile& file) : file_(file) {}

  [[nodiscard]] std::vector<LoraModule> read() {
    for (const auto& [name, entry] : file_.entries()) add(name, entry);
    if (found_.empty()) fail("{} holds no tensors of a LoRA, expected its factors", path());
    if (adapters_.size() > 1)
      fail("{} holds several adapters, '{}' and '{}', expected one", path(), printable_name(*adapters_.begin()),
           printable_name(*std::next(adapters_.begin())));
    const LoraScales scales(file_, tensors_);
    std::vector<LoraModule> modules;
    for (const auto& [name, parts] : found_) modules.push_back(make_module(name, parts, scales));
    notes_ = scales.notes();
    if (!embeddings_.empty())
      notes_.push_back(fmt::format("{}: the embedding '{}' is not used: tokens of a textual inversion are none here",
                                   path(), printable_name(embeddings_.front())));
    return modules;
  }
  [[nodiscard]] std::vector<std::string> take_notes() { return std::move(notes_); }

 private:
  [[nodiscard]] std::string path() const { return file_.path().string(); }
  /// "a.safetensors: tensor 'x' f16[4, 8]"
  [[nodiscard]] std::string describe(const FileTensor& tensor) const {
    return fmt::format("{}: tensor '{}' {}{}", path(), printable_name(tensor.name), tensor.dtype, tensor.shape);
  }

  void add(const std::string& name, const SafetensorsEntry& entry) {
    if (const std::string_view kind = unsupported_adapter(name); !kind.empty())
      fail(
          "{}: tensor '{}' belongs to an adapter of the kind {}, which is not supported: LoRA, LoHa, LoKr and DoRA are",
          path(), printable_name(name), kind);
    if (is_bundled_embedding(name)) {
      embeddings_.push_back(name);
      return;
    }
    const FileTensor tensor{.name = name, .dtype = entry.dtype, .shape = entry.shape, .bytes = file_.bytes(name)};
    const std::optional<LoraTensorName> parsed = parse_lora_name(name);
    if (!parsed)
      fail("{} is no part of a LoRA: expected a name that ends in lora_A.weight, lora_down.weight, alpha, ...",
           describe(tensor));
    const bool is_number = parsed->part == LoraPart::kAlpha && entry.dtype != DType::kBool;
    if (!is_number && (!is_float(entry.dtype) || size_of(entry.dtype) < 2))
      fail("{} is not of a dtype that factors have: F16, BF16 or F32", describe(tensor));
    if (!parsed->adapter.empty()) adapters_.insert(parsed->adapter);
    tensors_.has_peft_names |= parsed->is_peft;
    tensors_.has_alphas |= parsed->part == LoraPart::kAlpha;
    std::optional<FileTensor>& place = found_[parsed->module][parsed->part];
    if (place) fail("{} says again what '{}' says", describe(tensor), printable_name(place->name));
    place = tensor;
  }

  [[nodiscard]] LoraModule make_module(const std::string& name, const Parts& parts, const LoraScales& scales) const {
    LoraModule module{.name = name,
                      .bias = parts[LoraPart::kBias],
                      .difference = parts[LoraPart::kDifference],
                      .bias_difference = parts[LoraPart::kBiasDifference],
                      .value = parts[LoraPart::kValue]};
    if (!set_factors(module, parts)) {
      if (const FileTensor* alone = parts.any_of(kNeedFactors))
        fail("{} belongs to a module without factors", describe(*alone));
      return module;
    }
    std::optional<std::int64_t> rank;
    for (const auto* factors : {&module.factors, &module.second})
      if (*factors && (*factors)->down && !rank) rank = (*factors)->down->shape[0];
    if (module.bias && !(module.bias->shape == Shape{module.factors->up.shape[0]}))
      fail("{} does not fit '{}', which is {}", describe(*module.bias), printable_name(module.factors->up.name),
           module.factors->up.shape);
    module.scale = scale(name, parts[LoraPart::kAlpha], rank, scales);
    if (!std::isfinite(static_cast<float>(module.scale)))
      fail("{}: the scale of '{}' is {}, expected a number that f32 has", path(), printable_name(name), module.scale);
    module.magnitude = magnitude(parts);
    if (!module.magnitude && scales.needs_magnitude(name))
      fail("{}: '{}' is configured as DoRA, expected a tensor '{}.lora_magnitude_vector'", path(), printable_name(name),
           printable_name(name));
    return module;
  }

  /// Returns false if there are no factors.
  [[nodiscard]] bool set_factors(LoraModule& module, const Parts& parts) const {
    const FileTensor* const lora = parts.any_of(kLoraFactors);
    const FileTensor* const loha = parts.any_of(kLohaFactors);
    const FileTensor* const lokr = parts.any_of(kLokrFactors);
    const FileTensor* const first = lora != nullptr ? lora : loha != nullptr ? loha : lokr;
    if (first == nullptr) return false;
    for (const FileTensor* other : {loha, lokr})
      if (other != nullptr && other != first)
        fail("{} is of another kind of adapter than '{}'", describe(*other), printable_name(first->name));
    if (lora != nullptr) {
      module.factors = product(parts, *lora, LoraPart::kUp, LoraPart::kDown, LoraPart::kMid);
    } else if (loha != nullptr) {
      module.kind = LoraModule::Kind::kLoha;
      module.factors = product(parts, *loha, LoraPart::kHadaW1A, LoraPart::kHadaW1B, LoraPart::kHadaT1);
      module.second = product(parts, *loha, LoraPart::kHadaW2A, LoraPart::kHadaW2B, LoraPart::kHadaT2);
      if (module.second->up.shape[0] != module.factors->up.shape[0])
        fail("{} does not fit '{}', which has {} rows", describe(module.second->up),
             printable_name(module.factors->up.name), module.factors->up.shape[0]);
    } else {
      module.kind = LoraModule::Kind::kLokr;
      const std::optional<FileTensor>&first_whole = parts[LoraPart::kLokrW1], &second_whole = parts[LoraPart::kLokrW2];
      module.factors = first_whole ? LoraFactors{.up = matrix(*first_whole, /*is_filter=*/true)}
                                   : product(parts, *lokr, LoraPart::kLokrW1A, LoraPart::kLokrW1B, std::nullopt);
      module.second = second_whole ? LoraFactors{.up = matrix(*second_whole, /*is_filter=*/true)}
                                   : product(parts, *lokr, LoraPart::kLokrW2A, LoraPart::kLokrW2B, LoraPart::kLokrT2);
    }
    return true;
  }

  /// The two factors, with their core if any. In LoHa and LoKr the left factor is [rank, n] if there is a core.
  /// `sibling` is a tensor of the module, for errors.
  [[nodiscard]] LoraFactors product(const Parts& parts, const FileTensor& sibling, LoraPart up, LoraPart down,
                                    std::optional<LoraPart> core) const {
    if (!parts[up] || !parts[down])
      fail("{} has no other factor to be multiplied with", describe(parts[up]     ? *parts[up]
                                                                    : parts[down] ? *parts[down]
                                                                                  : sibling));
    LoraFactors factors{.up = matrix(*parts[up], /*is_filter=*/false),
                        .down = matrix(*parts[down], /*is_filter=*/true)};
    const bool has_core = core && parts[*core];
    if (has_core && up != LoraPart::kUp) std::tie(factors.up, factors.owner) = transposed(factors.up);
    const std::int64_t rank = factors.down->shape[0];
    if (factors.up.shape[1] != rank)
      fail("{} does not fit '{}', which is {}: the rank, {} and {}, must be the same", describe(factors.up),
           printable_name(factors.down->name), factors.down->shape, factors.up.shape[1], rank);
    if (!has_core) return factors;
    const Shape& shape = parts[*core]->shape;
    if (shape.rank() != 4 || shape[0] != rank || shape[1] != rank || shape.numel() == 0)
      fail("{} does not fit '{}': expected [{}, {}, height, width]", describe(*parts[*core]),
           printable_name(factors.down->name), rank, rank);
    factors.core = *parts[*core];
    factors.core->shape = Shape{rank, rank, shape[2] * shape[3]};
    return factors;
  }

  /// Reshapes [n, k, 1, 1] of a 1x1 convolution to [n, k], and a filter [n, k, h, w] to [n, k h w].
  [[nodiscard]] FileTensor matrix(FileTensor factor, bool is_filter) const {
    if (factor.shape.numel() == 0) fail("{} is empty, expected a rank of at least 1", describe(factor));
    const Shape& shape = factor.shape;
    const bool is_pointwise = shape.rank() == 4 && shape[2] == 1 && shape[3] == 1;
    if (is_pointwise || (is_filter && shape.rank() == 4))
      factor.shape = Shape{shape[0], shape[1] * shape[2] * shape[3]};
    if (factor.shape.rank() != 2) fail("{} is no matrix", describe(factor));
    return factor;
  }

  /// PEFT's norms are per output, in any shape. LyCORIS' are [n, 1, ...] per output or [1, in, ...] per input.
  [[nodiscard]] std::optional<FileTensor> magnitude(const Parts& parts) const {
    const std::optional<FileTensor>&of_outputs = parts[LoraPart::kMagnitude], &of_either = parts[LoraPart::kDoraScale];
    if (!of_outputs && !of_either) return std::nullopt;
    if (of_outputs && of_either)
      fail("{} says again what '{}' says", describe(*of_either), printable_name(of_outputs->name));
    FileTensor norms = of_outputs ? *of_outputs : *of_either;
    const Shape& shape = norms.shape;
    const std::int64_t count = shape.numel();
    if (count == 0 || std::ranges::find(shape.dims(), count) == shape.dims().end())
      fail("{} is no vector of magnitudes", describe(norms));
    const bool is_of_inputs = of_either && shape[0] != count;
    if (is_of_inputs && shape[1] != count) fail("{} is no vector of magnitudes", describe(norms));
    norms.shape = is_of_inputs ? Shape{1, count} : Shape{count, 1};
    return norms;
  }

  /// A Kronecker product of two matrices without factors has no rank, and LyCORIS applies no scale to it.
  [[nodiscard]] double scale(const std::string& module, const std::optional<FileTensor>& alpha,
                             std::optional<std::int64_t> rank, const LoraScales& scales) const {
    if (!alpha) return scales.scale(module, rank);
    if (alpha->shape.numel() != 1) fail("{} is an alpha, expected one number", describe(*alpha));
    const double value = load_as_double(alpha->bytes.data(), alpha->dtype);
    if (!std::isfinite(value)) fail("{} is {}, expected a number", describe(*alpha), value);
    return rank ? value / static_cast<double>(*rank) : 1;
  }

  const SafetensorsFile& file_;
  std::map<std::string, Parts> found_;  // by module
  std::set<std::string> adapters_;
  std::vector<std::string> embeddings_;
  LoraScales::Tensors tensors_;
  std::vector<std::string> notes_;
};

}  // namespace

LoraFile LoraFile::open(const std::filesystem::path& path) {
  LoraFile lora(std::make_shared<const SafetensorsFile>(SafetensorsFile::open(path)));
  // Every tensor of such a file is part of a factor, so an unreadable one must not be skipped.
  if (!lora.file_->unread().empty()) static_cast<void>(lora.file_->entry(lora.file_->unread().begin()->first));
  Reader reader(*lora.file_);
  lora.modules_ = reader.read();
  lora.notes_ = reader.take_notes();
  return lora;
}

}  // namespace headroom
