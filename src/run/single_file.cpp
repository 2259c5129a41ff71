#include "run/single_file.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/tensors/host_tensor.hpp"
#include "base/text/format.hpp"
#include "base/text/printable.hpp"
#include "io/foreign_quantization.hpp"
#include "io/weights_files.hpp"
#include "models/config.hpp"
#include "models/text_encoders/clip_text.hpp"
#include "models/unets/unet2d_condition.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kChannelsPerHead = "channels_per_head";

/// Tensors of checkpoints that no network reads: position indices, and a projection that the text encoder's class
/// does without.
bool is_ignored(std::string_view name) {
  return name.ends_with(".position_ids") || name == "position_ids" || name == "logit_scale" ||
         name == "text_projection" || name == "text_projection.weight";
}

/// The scales of a matrix in 8-bit floats and of the activations that it is multiplied with: the end of the param's
/// name, and the ends of the tensor's in ComfyUI's forms.
struct ScaleName {
  std::string_view param;
  std::array<std::string_view, 2> stored;
};
constexpr ScaleName kScaleNames[] = {{".weight_scale", {".scale_weight", ".weight_scale"}},
                                     {".input_scale", {".scale_input", ".input_scale"}}};

const ScaleName* find_scale_name(std::string_view param) {
  const auto* const found =
      std::ranges::find_if(kScaleNames, [&](const ScaleName& scale) { return param.ends_with(scale.param); });
  return found == std::end(kScaleNames) ? nullptr : found;
}

/// Whether a tensor is a part of ComfyUI's matrices in 8-bit floats: a scale, or a mark of the format. Only those of
/// matrices in such floats are read.
bool is_scaled_fp8(std::string_view name) {
  return name.ends_with(".scale_weight") || name.ends_with(".scale_input") || name.ends_with(".input_scale") ||
         name == "scaled_fp8" || name.ends_with(".scaled_fp8");
}

/// The heads of each level of a U-Net whose heads all have so many channels; null if they do not divide a level.
nlohmann::json heads_by_level(const nlohmann::json& widths, std::int64_t channels) {
  std::vector<std::int64_t> heads;
  for (const nlohmann::json& width : widths) {
    if (width.get<std::int64_t>() % channels != 0) return nullptr;
    heads.push_back(width.get<std::int64_t>() / channels);
  }
  return heads;
}

}  // namespace

/// Finds the params of a network among the tensors of a file, under their own names or those of the class's aliases.
class SingleFile::Reader {
 public:
  using Tensors = std::map<std::string, TensorSpec, std::less<>>;

  Reader(const ComponentClass& kind, const nlohmann::json& config, const Tensors& tensors) : tensors_(tensors) {
    if (kind.adapters.aliases != nullptr) aliases_ = kind.adapters.aliases(config);
    for (const ModuleAlias& alias : aliases_)
      for (const std::string& module : alias.modules) by_module_.emplace(module, &alias);
    expected_ = expected_params(kind, config,
                                {.dtype =
                                     [this](std::string_view name) {
                                       if (const auto found = find(name)) return found->stored->dtype;
                                       count_missing(name);
                                       return DType::kF32;
                                     },
                                 .has = [this](std::string_view name) { return find(name).has_value(); },
                                 .shape = [this](std::string_view name) { return find(name)->stored->shape; }});
    for (const TensorSpec& param : expected_) extents_.emplace(param.name, param.shape);
    for (const TensorSpec& param : expected_) rename(param);
  }

  [[nodiscard]] const std::vector<RenamedTensor>& renamed() const { return renamed_; }
  [[nodiscard]] std::vector<RenamedTensor> take() { return std::move(renamed_); }
  [[nodiscard]] const std::vector<std::string>& missing() const { return missing_; }
  [[nodiscard]] const std::vector<std::string>& reshaped() const { return reshaped_; }
  [[nodiscard]] std::vector<std::string> unread() const {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : tensors_)
      if (!read_.contains(tensor.name)) names.push_back(name);
    return names;
  }

 private:
  struct Found {
    const ModuleAlias* alias = nullptr;  ///< null under its own name
    const TensorSpec* stored = nullptr;
    std::string_view name;  ///< without the prefix
  };

  /// A scale of a matrix in 8-bit floats, under the names of ComfyUI.
  [[nodiscard]] std::optional<Found> find_scale(std::string_view param, const ScaleName& name) const {
    const std::optional<Found> found = find(std::string(param.substr(0, param.size() - name.param.size())) + ".weight");
    if (!found || !is_float(found->stored->dtype) || size_of(found->stored->dtype) != 1) return std::nullopt;
    const std::string module(found->name.substr(0, found->name.rfind('.')));
    for (const std::string_view end : name.stored)
      if (const auto scale = tensors_.find(module + std::string(end)); scale != tensors_.end())
        return Found{found->alias, &scale->second, scale->first};
    return std::nullopt;
  }

  [[nodiscard]] std::optional<Found> find(std::string_view name) const {
    if (const auto own = tensors_.find(name); own != tensors_.end()) return Found{nullptr, &own->second, own->first};
    if (const ScaleName* const scale = find_scale_name(name)) return find_scale(name, *scale);
    const std::size_t dot = name.rfind('.');
    if (dot == std::string_view::npos) return std::nullopt;
    const bool is_weight = name.substr(dot) == ".weight";
    const auto [first, last] = by_module_.equal_range(std::string(name.substr(0, dot)));
    for (auto known = first; known != last; ++known) {
      const ModuleAlias& alias = *known->second;
      const auto stored = tensors_.find(alias.name + std::string(is_weight ? alias.weight : alias.bias));
      if (stored != tensors_.end()) return Found{&alias, &stored->second, stored->first};
    }
    return std::nullopt;
  }

  /// A file may claim thousands of layers by one name of each.
  void count_missing(std::string_view name) {
    static constexpr std::size_t kMostMissing = 1000;
    if (missing_names_.emplace(name).second && missing_names_.size() > kMostMissing)
      fail("the network that its names describe needs more than {} tensors that it lacks, {} among them", kMostMissing,
           *missing_names_.begin());
  }

  void rename(const TensorSpec& param) {
    const std::optional<Found> found = find(param.name);
    if (!found) {
      missing_.push_back(param.name);
      return;
    }
    const TensorSpec& stored = *found->stored;
    read_.insert(stored.name);
    RenamedTensor renamed{.tensor = {param.name, stored.dtype, param.shape}, .stored = stored, .rows = {}};
    Shape expected = param.shape;
    const std::int64_t rows = param.shape.rank() == 0 ? 1 : param.shape[0];
    if (find_scale_name(param.name) != nullptr && param.shape == Shape{1} && stored.dtype == DType::kF32) {
      if (stored.shape.rank() == 0) expected = stored.shape;
      renamed.rows = {{0, 1}};
    } else if (found->alias == nullptr) {
      renamed.rows = {{0, rows}};
    } else if (found->alias->is_transposed && param.shape.rank() == 2) {
      expected = {param.shape[1], param.shape[0]};
      renamed.rows = {{0, param.shape[1]}};
      renamed.is_transposed = true;
    } else if (found->alias->swaps_halves) {
      renamed.rows = {{rows / 2, rows - rows / 2}, {0, rows / 2}};
    } else if (!find_rows(param, *found->alias, renamed, expected)) {
      return;  // a module is missing, which is reported as such
    }
    if (!(stored.shape == expected)) {
      reshaped_.push_back(fmt::format("{} is {} instead of {}", printable_name(stored.name), stored.shape, expected));
      return;
    }
    renamed_.push_back(std::move(renamed));
  }

  /// The rows of a module among those of all modules of an alias, and the shape of them together.
  bool find_rows(const TensorSpec& param, const ModuleAlias& alias, RenamedTensor& renamed, Shape& all) const {
    const std::string_view end = std::string_view(param.name).substr(param.name.rfind('.'));
    std::int64_t first = 0;
    for (const std::string& module : alias.modules) {
      const std::string name = module + std::string(end);
      const auto extents = extents_.find(name);
      if (extents == extents_.end()) return false;
      const std::int64_t rows = extents->second[0];
      if (name == param.name) renamed.rows = {{first, rows}};
      first += rows;
    }
    all.set(0, first);
    return true;
  }

  const Tensors& tensors_;
  std::vector<ModuleAlias> aliases_;
  std::multimap<std::string, const ModuleAlias*> by_module_;
  std::vector<TensorSpec> expected_;
  std::map<std::string, Shape> extents_;  // of expected_, by name
  std::vector<RenamedTensor> renamed_;
  std::set<std::string> read_;  // names in the file
  std::vector<std::string> missing_, reshaped_;
  std::set<std::string> missing_names_;
};

SingleFile::SingleFile(fs::path path, std::shared_ptr<TensorSource> source)
    : path_(std::move(path)), source_(std::move(source)) {
  std::vector<TensorSpec> all = source_->tensors();
  std::ranges::sort(all, {}, &TensorSpec::name);
  std::vector<StoredTensor> listed;
  for (const TensorSpec& tensor : all)
    listed.push_back({.name = tensor.name,
                      .dtype = std::string(name_of(tensor.dtype)),
                      .is_read = true,
                      .shape = tensor.shape,
                      .size_bytes = tensor.size_bytes()});
  parts_ = recognize_networks(listed);
  for (const NetworkPart& part : parts_) {
    std::map<std::string, TensorSpec, std::less<>>& tensors = tensors_[part.prefix];
    std::map<std::string, Shape, std::less<>> shapes;
    for (const TensorSpec& tensor : all) {
      if (part_prefix(tensor.name) != part.prefix) continue;
      std::string name = tensor.name.substr(part.prefix.size());
      shapes.emplace(name, tensor.shape);
      tensors.emplace(std::move(name), tensor);
    }
    shapes_.emplace(part.prefix, NamedShapes(path_.native(), std::move(shapes)));
  }
  for (const NetworkPart& part : parts_)
    if (const ModelFamily* const found = family_of_denoiser(part, shapes_.at(part.prefix)); found && family_ == nullptr)
      family_ = found;
  for (const NetworkPart& part : parts_) {
    if (part.class_name.empty()) continue;
    const ModelFamily* const family =
        family_ != nullptr ? family_ : family_of_part(part, shapes_.at(part.prefix), /*pipeline=*/{});
    if (family == nullptr) continue;
    FamilyRole role = role_in(*family, part);
    if (role.class_name.empty()) continue;
    networks_.push_back({part, std::move(role.role), std::move(role.class_name), family});
  }
}

SingleFile SingleFile::open(const fs::path& path) {
  try {
    std::shared_ptr<TensorSource> source = open_weights_file(path);
    std::vector<TensorSpec> tensors = source->tensors();
    const std::vector<std::string> unread = source->unread();
    std::erase_if(tensors, [](const TensorSpec& tensor) { return is_scaled_fp8(tensor.name); });
    refuse_foreign_tensors(path, nullptr, tensors, unread);
    return {path, std::move(source)};
  } catch (const fs::filesystem_error& error) {
    fail("cannot read {}: {}", error.path1().native(), error.code().message());
  }
}

const SingleFile::Network* SingleFile::find(std::string_view role) const {
  const auto found = std::ranges::find(networks_, role, &Network::role);
  return found == networks_.end() ? nullptr : &*found;
}

SingleFile::Network SingleFile::network_for(std::string_view role, std::string_view pipeline) const {
  std::vector<std::string> held;
  for (const Network& network : networks_) {
    const ModelFamily* const family = family_of_part(network.part, shapes_of(network), pipeline);
    if (family != nullptr)
      if (FamilyRole found = role_in(*family, network.part); found.role == role)
        return {network.part, std::move(found.role), std::move(found.class_name), family};
    held.push_back(network.part.network);
  }
  if (held.empty()) fail_without_network(fmt::format("{} of a {}", role, pipeline));
  fail("{} holds no {} of a {}; it holds {}", path_.native(), role, pipeline, join_some(held));
}

nlohmann::json SingleFile::scheduler() const {
  HR_CHECK(family_ != nullptr);
  nlohmann::json scheduler = values_of(*family_, "scheduler");
  const Network* const denoiser = find(family_->denoiser);
  HR_CHECK(denoiser != nullptr);
  // Files of SDXL that predict v have a tensor of that name.
  const auto& bare = tensors_.find("");
  const auto has = [&](std::string_view name) {
    return shapes_of(*denoiser).has(name) || (bare != tensors_.end() && bare->second.contains(name));
  };
  if (has("v_pred")) scheduler["prediction_type"] = "v_prediction";
  if (has("ztsnr")) scheduler["rescale_betas_zero_snr"] = true;
  // Of Stable Diffusion 2.x, networks that predict v are known by this bias, whose deviation is above 0.09.
  constexpr double kDeviationOfV = 0.09;
  const auto& tensors = tensors_.at(denoiser->part.prefix);
  const auto bias = tensors.find("output_blocks.11.1.transformer_blocks.0.norm1.bias");
  if (scheduler.value("_class_name", "") == "DDIMScheduler" && bias != tensors.end()) {
    const HostTensor values = source_->read(bias->second);
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; i < values.numel(); ++i) {
      sum += values.at(i);
      squares += values.at(i) * values.at(i);
    }
    const auto count = static_cast<double>(values.numel());
    if (std::sqrt(squares / count - sum / count * sum / count) > kDeviationOfV)
      scheduler["prediction_type"] = "v_prediction";
  }
  return scheduler;
}

SingleFile::InferredConfig SingleFile::infer(const Network& network, const OpenOptions& options) const {
  nlohmann::json named = {{"_class_name", network.class_name}};
  const ComponentClass& kind = class_of(named);
  HR_CHECK(kind.infer != nullptr);
  InferredConfig inferred;
  const auto take = [&](const nlohmann::json& values, const std::string& source) {
    for (const auto& [key, value] : values.items()) {
      inferred.values[key] = value;
      inferred.sources[key] = source;
    }
  };
  take(kind.infer(shapes_of(network)), "names and shapes");
  nlohmann::json family = values_of(*network.family, network.role);
  if (const auto channels = family.find(kChannelsPerHead); channels != family.end()) {
    family["attention_head_dim"] = heads_by_level(inferred.values["block_out_channels"], channels->get<std::int64_t>());
    family.erase(kChannelsPerHead);
  }
  take(family, std::string(network.family->name));
  if (!inferred.values.contains("_class_name"))
    take({{"architectures", {network.class_name}}}, std::string(network.family->name));
  // Stable Diffusion 2.x stores a layer of its text encoder that it does not run.
  if (network.class_name == kClipText && network.part.names == "OpenCLIP")
    take({{"num_hidden_layers", inferred.values["num_hidden_layers"].get<std::int64_t>() - 1}},
         std::string(network.family->name));
  nlohmann::json given = nlohmann::json::object();
  for (const auto& [key, value] : options.config) given[key] = value;
  take(given, "--config");
  const bool is_part = networks_.size() > 1 && network.role != network.family->denoiser;
  for (const auto& [key, value] : inferred.values.items())
    if (value.is_null())
      fail("{}: names and shapes do not tell {} of its {}: give --config {}{}{}=VALUE", path_.native(), key,
           network.part.network, is_part ? network.role : "", is_part ? "." : "", key);
  config::read_in(path_.native(), [&] { set_config(kind, inferred.values, options); });
  return inferred;
}

std::vector<std::string> SingleFile::unread(const Network& network, const OpenOptions& options) const {
  const nlohmann::json config = infer(network, options).values;
  return config::read_in(path_.native(),
                         [&] { return Reader(class_of(config), config, tensors_.at(network.part.prefix)).unread(); });
}

void SingleFile::require_all(const Network& network, const Reader& reader, const nlohmann::json& config,
                             const std::string& where) const {
  const ComponentClass& kind = class_of(config);
  std::vector<std::string> unread, unknown;
  for (const std::string& name : source_->unread())
    if (part_prefix(name) == network.part.prefix) unread.push_back(name);
  // Stable Diffusion 2.x stores a layer of its text encoder that it does not run.
  const std::string next_layer = kind.name == kClipText && network.part.names == "OpenCLIP"
                                     ? fmt::format("transformer.resblocks.{}.", config.value("num_hidden_layers", 0))
                                     : "-";
  for (const std::string& name : reader.unread())
    if (!is_ignored(name) && !is_scaled_fp8(name) && !name.starts_with(next_layer) &&
        (kind.is_unread == nullptr || !kind.is_unread(name)))
      unknown.push_back(name);
  std::vector<std::string> sentences;
  const auto report = [&](std::string_view verb, std::string_view what, const std::vector<std::string>& names) {
    if (!names.empty())
      sentences.push_back(fmt::format("{} {} {} {}: {}", where, verb, format_count(std::ssize(names), "tensor"), what,
                                      join_some(names)));
  };
  report("lacks", fmt::format("that a {} needs", kind.name), reader.missing());
  report("has", "of a type that is not read", unread);
  report("has", fmt::format("that a {} does not know", kind.name), unknown);
  report("has", "of another shape", reader.reshaped());
  if (!sentences.empty()) fail("{}", fmt::join(sentences, "; "));
}

void SingleFile::fail_without_network(std::string_view wanted) const {
  std::vector<std::string> held;
  bool has_own_names = false;
  for (const NetworkPart& part : parts_) {
    held.push_back(part.names.empty() ? part.network : fmt::format("{} ({} names)", part.network, part.names));
    has_own_names = has_own_names || part.names == "diffusers" || part.names == "transformers";
  }
  fail("{} holds no {} that can be opened from a file alone; it holds {}{}", path_.native(), wanted,
       held.empty() ? "nothing" : join_some(held),
       has_own_names ? ": put it into a folder with the network's config.json, and give that folder" : "");
}

Component SingleFile::component(const Network& network, const OpenOptions& options) const {
  nlohmann::json config = infer(network, options).values;
  return config::read_in(path_.native(), [&]() -> Component {
    const ComponentClass& kind = class_of(config);
    const std::string where =
        network.part.prefix.empty() ? path_.native() : fmt::format("{} ({})", path_.native(), network.part.prefix);
    Checkpoint checkpoint = [&] {
      if (options.random_seed) {
        const ParamSource bf16{.dtype = [](std::string_view) { return DType::kBF16; }};
        return Checkpoint::random(config, expected_params(kind, config, bf16), *options.random_seed,
                                  options.random_format);
      }
      Reader reader(kind, config, tensors_.at(network.part.prefix));
      require_all(network, reader, config, where);
      std::vector<std::string> notes = {
          fmt::format("{} is a {}, opened as {}; `headroom inspect` shows its configuration", where,
                      network.part.network, network.class_name)};
      const auto packed = std::ranges::count_if(reader.renamed(), [](const RenamedTensor& tensor) {
        return is_float(tensor.tensor.dtype) && size_of(tensor.tensor.dtype) == 1;
      });
      if (packed > 0)
        notes.push_back(
            fmt::format("{} has {} in 8-bit floats: the switch fp8 computes with them as they are stored, others widen "
                        "them",
                        where, format_count(packed, "tensor")));
      return Checkpoint::of(config, where, rename_tensors(source_, reader.take()), std::move(notes));
    }();
    return {
        .name = name(), .kind = &kind, .config = std::move(config), .checkpoint = std::move(checkpoint), .folder = {}};
  });
}

namespace {

/// The options with `part.` taken from the keys of values, as a file of one network may be given them too.
OpenOptions without_part(OpenOptions options, std::string_view part) {
  const std::string front = fmt::format("{}.", part);
  std::map<std::string, nlohmann::json, std::less<>> values;
  for (auto& [key, value] : options.config)
    values.emplace(key.starts_with(front) ? key.substr(front.size()) : key, std::move(value));
  options.config = std::move(values);
  return options;
}

}  // namespace

Component open_single_file(const fs::path& path, std::string_view role, const OpenOptions& options,
                           std::string_view pipeline) {
  const SingleFile file = SingleFile::open(path);
  if (!role.empty()) return file.component(file.network_for(role, pipeline), options);
  if (file.family() == nullptr && file.networks().size() != 1) file.fail_without_network("network");
  const SingleFile::Network& network =
      file.family() != nullptr ? *file.find(file.family()->denoiser) : file.networks().front();
  return file.component(network, without_part(options, network.role));
}

}  // namespace headroom
