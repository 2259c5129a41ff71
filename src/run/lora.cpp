#include "run/lora.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/format.hpp"
#include "base/nearest.hpp"
#include "base/printable.hpp"
#include "io/lora_file.hpp"
#include "ir/param_name.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWeight = ".weight", kBias = ".bias";

/// Prefixes of a class that `name` begins with, the longest first.
std::vector<std::string_view> prefixes_of(const ComponentClass& kind, std::string_view name) {
  std::vector<std::string_view> prefixes;
  for (const std::string_view prefix : kind.adapters.prefixes)
    if (name.starts_with(prefix)) prefixes.push_back(prefix);
  std::ranges::sort(prefixes, std::ranges::greater(), &std::string_view::size);
  return prefixes;
}

/// Modules of a network by all the names that files may give them, without prefix.
class ModuleNames {
 public:
  explicit ModuleNames(const Component& component) : component_(&component) {
    for (const TensorSpec& tensor : component.checkpoint.tensors())
      if (tensor.name.ends_with(kWeight)) {
        std::string module = tensor.name.substr(0, tensor.name.size() - kWeight.size());
        add({.name = module, .modules = {module}});
      }
    if (component.kind->adapters.aliases != nullptr)
      for (ModuleAlias& alias : component.kind->adapters.aliases(component.config)) add(std::move(alias));
  }

  [[nodiscard]] const Component& component() const { return *component_; }
  /// Null where there is none.
  [[nodiscard]] const ModuleAlias* find(std::string_view name) const {
    for (const std::string_view prefix : prefixes_of(*component_->kind, name))
      if (const auto known = by_name_.find(name.substr(prefix.size())); known != by_name_.end()) return &known->second;
    return nullptr;
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, alias] : by_name_) names.push_back(name);
    return names;
  }

 private:
  void add(ModuleAlias alias) {
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

/// Rows [first, first + count) along the outermost axis.
HostView rows_of(const HostView& view, std::int64_t first, std::int64_t count) {
  HostView rows = view;
  const std::size_t row = view.bytes.size() / static_cast<std::size_t>(view.shape[0]);
  rows.shape.set(0, count);
  rows.bytes = view.bytes.subspan(static_cast<std::size_t>(first) * row, static_cast<std::size_t>(count) * row);
  return rows;
}

/// What a file makes of params.
class Mapping {
 public:
  Mapping(const LoraFile& file, std::span<const Component> components) : file_(file) {
    for (const Component& component : components) networks_.emplace_back(component);
    for (const LoraModule& module : file.modules()) add(module);
  }

  [[nodiscard]] ParamUpdates take() { return std::move(updates_); }
  [[nodiscard]] std::string note() const {
    if (left_out_.empty()) return "";
    return fmt::format("{}: {} of networks that are not here, as '{}', {} not used", file_.path().string(),
                       format_count(static_cast<std::int64_t>(left_out_.size()), "module"),
                       printable_name(left_out_.front()), left_out_.size() == 1 ? "is" : "are");
  }

 private:
  void add(const LoraModule& module) {
    for (const ModuleNames& network : networks_)
      if (const ModuleAlias* alias = network.find(module.name)) return add(module, *alias, network.component());
    if (is_of_another_network(module.name)) {
      left_out_.push_back(module.name);
      return;
    }
    refuse_unknown(module);
  }

  /// Whether its prefix says that it is of a class that none of these networks has.
  [[nodiscard]] bool is_of_another_network(std::string_view name) const {
    const auto is_meant = [&](const ComponentClass& kind) {
      const std::vector<std::string_view> prefixes = prefixes_of(kind, name);
      return !prefixes.empty() && !prefixes.front().empty();
    };
    const auto is_here = [&](const ModuleNames& network) { return is_meant(*network.component().kind); };
    return std::ranges::none_of(networks_, is_here) && std::ranges::any_of(component_classes(), is_meant);
  }

  [[noreturn]] void refuse_unknown(const LoraModule& module) const {
    std::vector<std::string> known, classes;
    std::string_view name = module.name;
    for (const ModuleNames& network : networks_) {
      classes.emplace_back(network.component().kind->name);
      const std::vector<std::string_view> prefixes = prefixes_of(*network.component().kind, module.name);
      if (prefixes.empty()) continue;
      if (name.size() == module.name.size()) name.remove_prefix(prefixes.front().size());
      for (std::string& each : network.names()) known.push_back(std::move(each));
    }
    fail("{}: tensor '{}' is of no module of {}{}", file_.path().string(), printable_name(any_tensor(module).name),
         fmt::join(classes, ", "), did_you_mean(name, known));
  }

  [[nodiscard]] static const FileTensor& any_tensor(const LoraModule& module) {
    for (const auto* tensor : {&module.down, &module.difference, &module.bias_difference, &module.value})
      if (*tensor) return **tensor;
    HR_CHECK(module.up);
    return *module.up;
  }

  void add(const LoraModule& module, const ModuleAlias& alias, const Component& component) {
    if (module.up)
      add_rows(component, alias, kWeight, *module.up,
               {.up = view_of(*module.up), .down = view_of(*module.down), .scale = module.scale});
    if (module.bias)
      add_rows(component, alias, kBias, *module.bias, {.up = view_of(*module.bias), .scale = module.scale});
    if (module.difference) add_rows(component, alias, kWeight, *module.difference, {.up = view_of(*module.difference)});
    if (module.bias_difference)
      add_rows(component, alias, kBias, *module.bias_difference, {.up = view_of(*module.bias_difference)});
    if (module.value) set_value(component, alias, *module.value);
  }

  /// Adds to each of the modules the rows of `term` that are its own.
  void add_rows(const Component& component, const ModuleAlias& alias, std::string_view what, const FileTensor& tensor,
                ParamTerm term) {
    std::vector<const TensorSpec*> params;
    std::int64_t rows = 0;
    for (const std::string& module : alias.modules) {
      params.push_back(&require_param(component, module, what, tensor));
      rows += params.back()->shape[0];
    }
    if (term.up.shape.rank() == 0 || term.up.shape[0] != rows)
      fail("{}: tensor '{}' is {}, expected {} rows, those of {}", file_.path().string(), printable_name(tensor.name),
           tensor.shape, rows, fmt::join(alias.modules, ", "));
    term.owner = file_.owner();
    if (alias.swaps_halves) swap_halves(term);
    std::int64_t first = 0;
    for (const TensorSpec* param : params) {
      ParamTerm part = term;
      part.up = rows_of(term.up, first, param->shape[0]);
      first += param->shape[0];
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

  static void swap_halves(ParamTerm& term) {
    const auto copy = std::make_shared<std::vector<std::byte>>(term.up.bytes.begin(), term.up.bytes.end());
    std::ranges::rotate(*copy, copy->begin() + static_cast<std::ptrdiff_t>(copy->size() / 2));
    term.up.bytes = *copy;
    term.owner =
        std::make_shared<std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(term.owner, copy);
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

const LoraFiles::Opened& LoraFiles::open(const std::string& file, std::span<const Component> components) {
  std::error_code error;
  const fs::path path = fs::weakly_canonical(file, error);
  const auto time = fs::last_write_time(path, error);
  const std::uintmax_t bytes = error ? 0 : fs::file_size(path, error);
  const auto known = std::ranges::find(opened_, path, &Opened::path);
  if (known != opened_.end() && !error && known->time == time && known->bytes == bytes) {
    opened_.splice(opened_.begin(), opened_, known);
    return opened_.front();
  }
  if (known != opened_.end()) opened_.erase(known);
  const LoraFile lora = LoraFile::open(file);
  Mapping mapping(lora, components);
  opened_.push_front({.path = path, .time = time, .bytes = bytes, .updates = mapping.take(), .note = mapping.note()});
  if (opened_.size() > kMostOpen) opened_.pop_back();
  return opened_.front();
}

ParamUpdates LoraFiles::updates(std::span<const LoraUse> uses, std::span<const Component> components) {
  notes_.clear();
  ParamUpdates all;
  for (const LoraUse& use : uses) {
    if (use.weight == 0) continue;
    const Opened& opened = open(use.file, components);
    if (!opened.note.empty()) notes_.push_back(opened.note);
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
