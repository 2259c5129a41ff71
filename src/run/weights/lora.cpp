#include "run/weights/lora.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/files/truncated_file.hpp"
#include "base/text/format.hpp"
#include "base/text/nearest.hpp"
#include "base/text/printable.hpp"
#include "io/lora_file.hpp"
#include "io/lora_scales.hpp"
#include "ir/param_name.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWeight = ".weight", kBias = ".bias";

/// Prefixes of a class with which `name` begins, the longest first.
std::vector<std::string_view> prefixes_of(const ComponentClass& kind, std::string_view name) {
  std::vector<std::string_view> prefixes;
  for (const std::string_view prefix : kind.adapters.prefixes)
    if (name.starts_with(prefix)) prefixes.push_back(prefix);
  std::ranges::sort(prefixes, std::ranges::greater(), &std::string_view::size);
  return prefixes;
}

/// Modules of a network under all names that files may use, without prefix.
class ModuleNames {
 public:
  explicit ModuleNames(const Component& component) : component_(&component) {
    for (const TensorSpec& tensor : component.checkpoint.tensors())
      if (tensor.name.ends_with(kWeight)) add_module(tensor.name.substr(0, tensor.name.size() - kWeight.size()));
    if (component.kind->adapters.aliases != nullptr)
      for (ModuleAlias& alias : component.kind->adapters.aliases(component.config)) add(std::move(alias));
  }

  [[nodiscard]] const Component& component() const { return *component_; }
  /// The module that a file's name refers to; null if there is none.
  struct Match {
    const ModuleAlias* alias = nullptr;
    bool has_prefix = false;  ///< which identifies the network
  };
  [[nodiscard]] Match find(std::string_view name) const {
    for (const std::string_view prefix : prefixes_of(*component_->kind, name))
      if (const auto known = by_name_.find(name.substr(prefix.size())); known != by_name_.end())
        return {.alias = &known->second, .has_prefix = !prefix.empty()};
    return {};
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, alias] : by_name_) names.push_back(name);
    return names;
  }

 private:
  void add_module(const std::string& module) {
    const AdapterNames& names = component_->kind->adapters;
    add({.name = module, .modules = {module}});
    for (const AdapterNames::End& end : names.ends)
      if (module.ends_with(end.name))
        add({.name = module.substr(0, module.size() - end.name.size()) + std::string(end.other), .modules = {module}});
  }

  void add(ModuleAlias alias) {
    const std::string_view front = component_->kind->adapters.optional_front;
    if (!front.empty()) {
      const bool has_front = alias.name.starts_with(front);
      ModuleAlias other = alias;
      other.name = has_front ? alias.name.substr(front.size()) : std::string(front) + alias.name;
      add_as_named(std::move(other));
    }
    add_as_named(std::move(alias));
  }

  void add_as_named(ModuleAlias alias) {
    std::string flat = alias.name;
    std::ranges::replace(flat, '.', '_');
    by_name_.try_emplace(std::move(flat), alias);
    by_name_.try_emplace(alias.name, alias);
  }

  const Component* component_;
  std::map<std::string, ModuleAlias, std::less<>> by_name_;
};

HostView view_of(const FileTensor& tensor) {
  return {.dtype = tensor.dtype, .shape = tensor.shape, .bytes = tensor.bytes};
}

std::optional<HostView> view_of(const std::optional<FileTensor>& tensor) {
  return tensor ? std::optional(view_of(*tensor)) : std::nullopt;
}

Factors factors_of(const LoraFactors& factors) {
  return {.up = view_of(factors.up), .down = view_of(factors.down), .core = view_of(factors.core)};
}

ParamTerm::Join join_of(LoraModule::Kind kind) {
  switch (kind) {
    case LoraModule::Kind::kLora:
      return ParamTerm::Join::kNone;
    case LoraModule::Kind::kLoha:
      return ParamTerm::Join::kHadamard;
    case LoraModule::Kind::kLokr:
      return ParamTerm::Join::kKronecker;
  }
  HR_CHECK(false);
  return ParamTerm::Join::kNone;
}

/// Owners of the elements of a term.
using Owners = std::vector<std::shared_ptr<const void>>;

/// Rows along the outermost axis; copied if they are not contiguous.
HostView rows_of(const HostView& view, std::span<const RowRange> ranges, Owners& owners) {
  const std::size_t row = view.bytes.size() / static_cast<std::size_t>(view.shape[0]);
  const auto bytes_of = [&](const RowRange& range) {
    return view.bytes.subspan(static_cast<std::size_t>(range.first) * row, static_cast<std::size_t>(range.count) * row);
  };
  HostView rows = view;
  std::int64_t count = 0;
  for (const RowRange& range : ranges) count += range.count;
  rows.shape.set(0, count);
  if (ranges.size() == 1) {
    rows.bytes = bytes_of(ranges.front());
    return rows;
  }
  const auto copy = std::make_shared<std::vector<std::byte>>();
  for (const RowRange& range : ranges) {
    const std::span<const std::byte> bytes = bytes_of(range);
    copy->insert(copy->end(), bytes.begin(), bytes.end());
  }
  rows.bytes = *copy;
  owners.push_back(copy);
  return rows;
}

/// The number of rows of the matrix that a term adds.
std::int64_t count_rows(const ParamTerm& term) {
  const std::int64_t rows = term.factors.up.shape.rank() == 0 ? 0 : term.factors.up.shape[0];
  if (term.join != ParamTerm::Join::kKronecker) return rows;
  constexpr std::int64_t kMost = std::int64_t{1} << 31;  // larger params do not exist
  const std::int64_t inner = term.other->up.shape[0];
  return rows < kMost && inner < kMost ? rows * inner : 0;
}

/// Reduces the term to these rows.
void take_rows(ParamTerm& term, std::span<const RowRange> ranges, Owners& owners) {
  if (term.join == ParamTerm::Join::kKronecker) {
    term.rows.assign(ranges.begin(), ranges.end());
  } else {
    term.factors.up = rows_of(term.factors.up, ranges, owners);
    if (term.other) term.other->up = rows_of(term.other->up, ranges, owners);
  }
  if (term.magnitude) term.magnitude = rows_of(*term.magnitude, ranges, owners);
}

/// The mapping from the tensors of a file to updates of params.
class Mapping {
 public:
  Mapping(const LoraFile& file, std::span<const Component> components) : file_(file) {
    for (const Component& component : components) networks_.emplace_back(component);
    for (const LoraModule& module : file.modules()) add(module);
    if (updates_.empty())
      fail("{}: none of its {} is of {}, as '{}'", file_.path().string(),
           format_count(std::ssize(file.modules()), "module"), fmt::join(classes(), ", "),
           printable_name(file.modules().front().name));
  }

  [[nodiscard]] ParamUpdates take() { return std::move(updates_); }
  [[nodiscard]] std::vector<std::string> notes() const {
    std::vector<std::string> notes(file_.notes().begin(), file_.notes().end());
    if (!left_out_.empty())
      notes.push_back(fmt::format("{}: {} of networks that are not here, as '{}', {} not used", file_.path().string(),
                                  format_count(std::ssize(left_out_), "module"), printable_name(left_out_.front()),
                                  left_out_.size() == 1 ? "is" : "are"));
    return notes;
  }

 private:
  void add(const LoraModule& module) {
    std::vector<std::pair<const ModuleNames*, const ModuleAlias*>> bare;  // matches without a network's prefix
    for (const ModuleNames& network : networks_) {
      const ModuleNames::Match match = network.find(module.name);
      if (match.has_prefix) return add(module, *match.alias, network.component());
      if (match.alias != nullptr) bare.emplace_back(&network, match.alias);
    }
    if (bare.size() > 1)
      fail("{}: tensor '{}' may be of {} or of {}, expected a prefix that tells", file_.path().string(),
           printable_name(any_tensor(module).name), bare[0].first->component().name, bare[1].first->component().name);
    if (bare.size() == 1) return add(module, *bare.front().second, bare.front().first->component());
    if (is_of_another_network(module.name)) {
      left_out_.push_back(module.name);
      return;
    }
    refuse_unknown(module);
  }

  /// Whether its prefix belongs to a class that none of these networks has.
  [[nodiscard]] bool is_of_another_network(std::string_view name) const {
    const auto is_meant = [&](const ComponentClass& kind) {
      const std::vector<std::string_view> prefixes = prefixes_of(kind, name);
      return !prefixes.empty() && !prefixes.front().empty();
    };
    const auto is_here = [&](const ModuleNames& network) { return is_meant(*network.component().kind); };
    return std::ranges::none_of(networks_, is_here) && std::ranges::any_of(component_classes(), is_meant);
  }

  [[nodiscard]] std::vector<std::string> classes() const {
    std::vector<std::string> classes;
    for (const ModuleNames& network : networks_) classes.emplace_back(network.component().kind->name);
    return classes;
  }

  [[noreturn]] void refuse_unknown(const LoraModule& module) const {
    std::vector<std::string> known;
    std::string_view name = module.name;
    for (const ModuleNames& network : networks_) {
      const std::vector<std::string_view> prefixes = prefixes_of(*network.component().kind, module.name);
      if (prefixes.empty()) continue;
      if (name.size() == module.name.size()) name.remove_prefix(prefixes.front().size());
      for (std::string& each : network.names()) known.push_back(std::move(each));
    }
    fail("{}: tensor '{}' is of no module of {}{}", file_.path().string(), printable_name(any_tensor(module).name),
         fmt::join(classes(), ", "), did_you_mean(name, known));
  }

  [[nodiscard]] static const FileTensor& any_tensor(const LoraModule& module) {
    if (module.factors) return module.factors->down ? *module.factors->down : module.factors->up;
    for (const auto* tensor : {&module.difference, &module.bias_difference})
      if (*tensor) return **tensor;
    HR_CHECK(module.value);
    return *module.value;
  }

  void add(const LoraModule& module, const ModuleAlias& alias, const Component& component) {
    if (module.factors) {
      ParamTerm term{.factors = factors_of(*module.factors),
                     .join = join_of(module.kind),
                     .scale = module.scale,
                     .magnitude = view_of(module.magnitude)};
      Owners owners = {file_.owner(), module.factors->owner};
      if (module.second) {
        term.other = factors_of(*module.second);
        owners.push_back(module.second->owner);
      }
      add_rows(component, alias, kWeight, module.factors->up, std::move(term), std::move(owners));
    }
    const auto add_whole = [&](std::string_view what, const FileTensor& tensor, double scale) {
      add_rows(component, alias, what, tensor, {.factors = {.up = view_of(tensor)}, .scale = scale}, {file_.owner()});
    };
    if (module.bias) add_whole(kBias, *module.bias, module.scale);
    if (module.difference) add_whole(kWeight, *module.difference, 1);
    if (module.bias_difference) add_whole(kBias, *module.bias_difference, 1);
    if (module.value) set_value(component, alias, *module.value);
  }

  /// Adds to each module its own rows of `term`.
  void add_rows(const Component& component, const ModuleAlias& alias, std::string_view what, const FileTensor& tensor,
                ParamTerm term, Owners owners) {
    std::vector<const TensorSpec*> params;
    std::int64_t rows = 0;
    for (const std::string& module : alias.modules) {
      params.push_back(&require_param(component, module, what, tensor));
      rows += params.back()->shape[0];
    }
    if (const std::int64_t given = count_rows(term); given != rows)
      fail("{}: tensor '{}' is {}{}, expected {} rows, those of {}", file_.path().string(), printable_name(tensor.name),
           tensor.shape,
           term.join == ParamTerm::Join::kKronecker ? fmt::format(" and makes {} rows", given) : std::string(), rows,
           fmt::join(alias.modules, ", "));
    const bool is_whole = params.size() == 1 && !alias.swaps_halves;
    if (!is_whole && term.magnitude && !(term.magnitude->shape == Shape{rows, 1}))
      fail("{}: tensor '{}' has magnitudes {}, expected [{}, 1], those of the outputs of {}", file_.path().string(),
           printable_name(tensor.name), term.magnitude->shape, rows, fmt::join(alias.modules, ", "));
    std::int64_t first = 0;
    for (const TensorSpec* param : params) {
      const std::int64_t count = param->shape[0], half = count / 2;
      ParamTerm part = term;
      Owners part_owners = owners;
      if (alias.swaps_halves)
        take_rows(part, std::array{RowRange{half, count - half}, RowRange{0, half}}, part_owners);
      else if (!is_whole)
        take_rows(part, std::array{RowRange{first, count}}, part_owners);
      part.owner = std::make_shared<const Owners>(std::move(part_owners));
      first += count;
      if (const std::string obstacle = part.obstacle(param->dtype, param->shape); !obstacle.empty())
        fail("{}: tensor '{}' {} does not fit {}'s '{}' {}{}: {}", file_.path().string(), printable_name(tensor.name),
             tensor.shape, component.name, param->name, param->dtype, param->shape, obstacle);
      updates_[param_name(component, param->name)].terms.push_back(std::move(part));
    }
  }

  void set_value(const Component& component, const ModuleAlias& alias, const FileTensor& tensor) {
    HR_CHECK_EQ(alias.modules.size(), 1U);
    const TensorSpec& param = require_param(component, alias.modules.front(), kWeight, tensor);
    if (!is_float(param.dtype) || !(param.shape == tensor.shape))
      fail("{}: tensor '{}' is {}{}, expected a float{}", file_.path().string(), printable_name(tensor.name),
           tensor.dtype, tensor.shape, param.shape);
    HostTensor value(tensor.dtype, tensor.shape);
    std::ranges::copy(tensor.bytes, value.bytes().begin());
    require_whole(tensor.bytes);
    updates_[param_name(component, param.name)].value = std::make_shared<const HostTensor>(convert(value, param.dtype));
  }

  [[nodiscard]] const TensorSpec& require_param(const Component& component, const std::string& module,
                                                std::string_view what, const FileTensor& tensor) const {
    const std::string name = module + std::string(what);
    if (!component.checkpoint.has(name))
      fail("{}: tensor '{}' is for '{}', which {} does not have", file_.path().string(), printable_name(tensor.name),
           name, component.name);
    return component.checkpoint.entry(name);
  }

  [[nodiscard]] static std::string param_name(const Component& component, const std::string& tensor) {
    return join_param_name({.checkpoint = component.part, .tensor = tensor});
  }

  const LoraFile& file_;
  std::vector<ModuleNames> networks_;
  ParamUpdates updates_;
  std::vector<std::string> left_out_;  // modules
};

}  // namespace

LoraUse parse_lora(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {.file = text};
  LoraUse use{.file = text.substr(0, colon)};
  const char* const begin = text.data() + colon + 1;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, use.weight);
  if (error != std::errc{} || stop != end || !std::isfinite(use.weight) || use.file.empty())
    fail_usage("--lora {}: expected FILE or FILE:WEIGHT, as style.safetensors:0.8", text);
  return use;
}

LoraFiles::Stamp LoraFiles::stamp_of(const fs::path& path) {
  Stamp stamp;
  for (const fs::path& file : {path, adapter_config_next_to(path)}) {
    std::error_code error;
    const fs::file_time_type time = fs::last_write_time(file, error);
    const std::uintmax_t bytes = error ? 0 : fs::file_size(file, error);
    stamp.emplace_back(error ? fs::file_time_type() : time, bytes);
  }
  return stamp;
}

const LoraFiles::Opened& LoraFiles::open(const std::string& file, std::span<const Component> components) {
  std::error_code error;
  const fs::path path = fs::weakly_canonical(file, error);
  // Links are followed, but adapter_config.json is looked for next to the given name.
  const Stamp stamp = stamp_of(file);
  const auto known = std::ranges::find_if(opened_, [&](const Opened& opened) { return opened.name == file; });
  if (known != opened_.end() && known->path == path && known->stamp == stamp) {
    opened_.splice(opened_.begin(), opened_, known);
    return opened_.front();
  }
  if (known != opened_.end()) opened_.erase(known);
  const LoraFile lora = LoraFile::open(file);
  Mapping mapping(lora, components);
  opened_.push_front({.name = file, .path = path, .stamp = stamp, .updates = mapping.take(), .notes = mapping.notes()});
  if (opened_.size() > kMostOpen) opened_.pop_back();
  return opened_.front();
}

ParamUpdates LoraFiles::updates(std::span<const LoraUse> uses, std::span<const Component> components) {
  notes_.clear();
  ParamUpdates all;
  for (const LoraUse& use : uses) {
    if (use.weight == 0) continue;
    const Opened& opened = open(use.file, components);
    notes_.insert(notes_.end(), opened.notes.begin(), opened.notes.end());
    for (const auto& [param, update] : opened.updates) {
      ParamUpdate& sum = all[param];
      if (update.value != nullptr) sum.value = update.value;
      for (ParamTerm term : update.terms) {
        term.scale *= use.weight;
        sum.terms.push_back(std::move(term));
      }
    }
  }
  return all;
}

}  // namespace headroom
