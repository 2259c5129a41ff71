#include "pipelines/parts_source.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/text/format.hpp"
#include "base/text/json.hpp"
#include "base/text/nearest.hpp"
#include "base/text/printable.hpp"
#include "pipelines/schedules/scheduler.hpp"
#include "pipelines/schedules/scheduler_class.hpp"
#include "pipelines/stages/gguf_tokenizer.hpp"
#include "run/hub_cache.hpp"
#include "run/single_file.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndexFile = "model_index.json";
constexpr const char* kModularIndexFile = "modular_model_index.json";
constexpr const char* kSchedulerConfig = "scheduler_config.json";
constexpr std::string_view kSchedulerRole = "scheduler", kTokenizerRole = "tokenizer", kEncoderRole = "text_encoder";

bool is_tokenizer(std::string_view role) { return role.starts_with(kTokenizerRole); }

[[noreturn]] void fail_without_part(const PartsSource& source, std::string_view role) {
  fail("{} has no part '{}', which {} needs: give --part {}=PATH", source.place(), role, source.class_name(), role);
}

class FolderParts final : public PartsSource {
 public:
  FolderParts(fs::path folder, OpenOptions options)
      : folder_(std::move(folder)),
        options_(std::move(options)),
        index_file_(is_there(folder_ / kIndexFile) ? kIndexFile : kModularIndexFile),
        index_(read_json(folder_ / index_file_)) {
    if (!index_.is_object()) fail("{} is not a JSON object", index_path());
    class_name_ = get_string(index_, "_class_name", index_path());
  }

  [[nodiscard]] std::string place() const override { return folder_.string(); }
  [[nodiscard]] std::string name() const override { return model_name_of(folder_); }
  [[nodiscard]] std::string class_name() const override { return class_name_; }
  [[nodiscard]] fs::path folder() const override { return folder_; }
  [[nodiscard]] bool flag(std::string_view key, bool fallback) const override {
    return get_bool_or(index_, std::string(key).c_str(), fallback, index_path());
  }

  [[nodiscard]] bool has(std::string_view role) const override { return is_named(role) && is_folder(folder_ / role); }
  [[nodiscard]] std::string class_of(std::string_view role) const override {
    return is_named(role) ? index_.at(role)[1].get<std::string>() : std::string();
  }
  [[nodiscard]] std::string repository_of(std::string_view role) const override {
    constexpr const char* kRepository = "pretrained_model_name_or_path";
    if (!is_named(role) || has(role) || index_.at(role).size() < 3) return {};
    const nlohmann::json& more = index_.at(role)[2];
    const bool is_text = more.is_object() && more.contains(kRepository) && more.at(kRepository).is_string();
    return is_text ? more.at(kRepository).get<std::string>() : std::string();
  }
  [[nodiscard]] Component open_network(std::string_view role) const override {
    // The denoiser's part is the only one with this name in each class of pipelines.
    const bool is_denoiser = role == "transformer" || role == "unet";
    Component component = open_component(part(role).string(), options_.for_part(role, is_denoiser));
    component.part = role;
    return component;
  }
  [[nodiscard]] fs::path tokenizer_path(std::string_view role) const override { return part(role); }
  [[nodiscard]] nlohmann::json scheduler() const override {
    return read_scheduler_config(part(kSchedulerRole) / kSchedulerConfig);
  }

 private:
  [[nodiscard]] std::string index_path() const { return (folder_ / index_file_).string(); }
  /// Whether the index has ["diffusers", "AutoencoderKL"] for it, or a third element more.
  [[nodiscard]] bool is_named(std::string_view role) const {
    const auto found = index_.find(role);
    return found != index_.end() && found->is_array() && (found->size() == 2 || found->size() == 3) &&
           (*found)[0].is_string() && (*found)[1].is_string();
  }
  [[nodiscard]] fs::path part(std::string_view role) const {
    if (!has(role)) fail_without_part(*this, role);
    return folder_ / role;
  }

  fs::path folder_;
  OpenOptions options_;
  const char* index_file_;
  nlohmann::json index_;
  std::string class_name_;
};

/// The networks of a file.
class FileParts final : public PartsSource {
 public:
  FileParts(SingleFile file, OpenOptions options) : file_(std::move(file)), options_(std::move(options)) {
    HR_CHECK(file_.family() != nullptr);
  }

  [[nodiscard]] std::string place() const override { return file_.path().string(); }
  [[nodiscard]] std::string name() const override { return file_.name(); }
  [[nodiscard]] std::string class_name() const override { return std::string(file_.family()->pipeline); }
  [[nodiscard]] bool flag(std::string_view /*key*/, bool fallback) const override { return fallback; }

  [[nodiscard]] bool has(std::string_view role) const override {
    return role == kSchedulerRole || file_.find(role) != nullptr;
  }
  [[nodiscard]] std::string class_of(std::string_view role) const override {
    const SingleFile::Network* const network = file_.find(role);
    return network == nullptr ? std::string() : network->class_name;
  }
  [[nodiscard]] Component open_network(std::string_view role) const override {
    const SingleFile::Network* const network = file_.find(role);
    if (network == nullptr) fail_without_part(*this, role);
    Component component = file_.component(*network, options_.for_part(role, role == file_.family()->denoiser));
    component.part = role;
    return component;
  }
  [[nodiscard]] fs::path tokenizer_path(std::string_view role) const override { fail_without_part(*this, role); }
  [[nodiscard]] nlohmann::json scheduler() const override { return file_.scheduler(); }

 private:
  SingleFile file_;
  OpenOptions options_;
};

/// A denoiser alone, to which the user gives the other parts.
class DenoiserParts final : public PartsSource {
 public:
  DenoiserParts(std::string path, std::string name, std::string class_name, std::string role, OpenOptions options)
      : path_(std::move(path)),
        name_(std::move(name)),
        class_name_(std::move(class_name)),
        role_(std::move(role)),
        options_(std::move(options)) {}

  [[nodiscard]] std::string place() const override { return path_; }
  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] std::string class_name() const override { return class_name_; }
  [[nodiscard]] fs::path folder() const override { return find_model_folder(path_); }
  [[nodiscard]] bool flag(std::string_view /*key*/, bool fallback) const override { return fallback; }
  [[nodiscard]] bool has(std::string_view role) const override { return role == role_; }
  [[nodiscard]] std::string class_of(std::string_view /*role*/) const override { return {}; }
  [[nodiscard]] Component open_network(std::string_view role) const override {
    if (!has(role)) fail_without_part(*this, role);
    Component component = open_component(path_, options_.for_part(role, /*is_denoiser=*/true));
    component.part = role;
    return component;
  }
  [[nodiscard]] fs::path tokenizer_path(std::string_view role) const override { fail_without_part(*this, role); }
  [[nodiscard]] nlohmann::json scheduler() const override { fail_without_part(*this, kSchedulerRole); }

 private:
  std::string path_, name_, class_name_, role_;
  OpenOptions options_;
};

class GivenParts final : public PartsSource {
 public:
  GivenParts(std::unique_ptr<PartsSource> source, OpenOptions options, std::span<const PartNeed> needs)
      : source_(std::move(source)), options_(std::move(options)), needs_(needs.begin(), needs.end()) {
    std::vector<std::string> roles;
    for (const PartNeed& need : needs_) roles.emplace_back(need.role);
    const auto require_role = [&](std::string_view option, std::string_view role) {
      if (std::ranges::find(roles, role) == roles.end())
        fail_usage("{} {}: a {} has no such part; it has {}{}", option, printable_name(std::string(role)),
                   source_->class_name(), fmt::join(roles, ", "), did_you_mean(std::string(role), roles));
    };
    for (const auto& [role, path] : options_.parts) require_role("--part", role);
    for (const auto& [key, value] : options_.config)
      if (const std::size_t dot = key.find('.'); dot != std::string::npos) require_role("--config", key.substr(0, dot));
  }

  [[nodiscard]] std::string place() const override { return source_->place(); }
  [[nodiscard]] std::string name() const override { return source_->name(); }
  [[nodiscard]] std::string class_name() const override { return source_->class_name(); }
  [[nodiscard]] fs::path folder() const override { return source_->folder(); }
  [[nodiscard]] bool flag(std::string_view key, bool fallback) const override { return source_->flag(key, fallback); }
  [[nodiscard]] bool has(std::string_view role) const override {
    return given(role) || source_->has(role) || encoder_file(role);
  }
  [[nodiscard]] std::string class_of(std::string_view role) const override {
    // A tokenizer's folder need not name its class, which is that of the pipeline's.
    if (is_tokenizer(role) && source_->class_of(role).empty()) return std::string(need_of(role).class_name);
    return given(role) && !is_tokenizer(role) ? std::string() : source_->class_of(role);
  }
  [[nodiscard]] std::string repository_of(std::string_view role) const override {
    return given(role) ? std::string() : source_->repository_of(role);
  }
  [[nodiscard]] Component open_network(std::string_view role) const override {
    const std::optional<std::string> path = given(role);
    if (!path) return source_->open_network(role);
    const OpenOptions own = options_.for_part(role, role == needs_.front().role);
    const bool is_file = is_there(*path) && !is_folder(*path);
    Component component =
        is_file ? open_single_file(*path, role, own, source_->class_name()) : open_component(*path, own);
    component.part = role;
    return component;
  }
  [[nodiscard]] fs::path tokenizer_path(std::string_view role) const override {
    const std::optional<std::string> path = given(role);
    if (!path) {
      if (source_->has(role)) return source_->tokenizer_path(role);
      const std::optional<std::string> file = encoder_file(role);
      return file ? fs::path(*file) : source_->tokenizer_path(role);
    }
    if (!is_folder(*path) && !has_gguf_tokenizer(*path))
      fail("--part {}={}: there is no such folder of a tokenizer, nor a GGUF file with one", role, *path);
    return *path;
  }
  [[nodiscard]] nlohmann::json scheduler() const override {
    const std::optional<std::string> path = given(kSchedulerRole);
    nlohmann::json scheduler =
        path ? read_scheduler_config(is_folder(*path) ? fs::path(*path) / kSchedulerConfig : fs::path(*path))
        : source_->has(kSchedulerRole) ? source_->scheduler()
                                       : own_scheduler();
    for (const auto& [key, value] : options_.for_part(kSchedulerRole, /*is_denoiser=*/false).config) {
      const std::vector<std::string> known = scheduler_keys();
      if (std::ranges::find(known, key) == known.end())
        fail_usage("--config scheduler.{}: a scheduler has no such value{}", printable_name(key),
                   did_you_mean(key, known));
      scheduler[key] = value;
    }
    return scheduler;
  }

 private:
  /// The configuration that the pipeline's scheduler is made from.
  [[nodiscard]] nlohmann::json own_scheduler() const {
    const PartNeed& need = need_of(kSchedulerRole);
    return need.by_default.empty() ? source_->scheduler()
                                   : parse_scheduler_config(need.by_default, source_->class_name());
  }
  [[nodiscard]] std::optional<std::string> given(std::string_view role) const {
    const auto found = options_.parts.find(role);
    return found == options_.parts.end() ? std::nullopt : std::optional(found->second);
  }
  /// The file given for the text encoder of a tokenizer, if the tokenizer lies in it.
  [[nodiscard]] std::optional<std::string> encoder_file(std::string_view role) const {
    if (!is_tokenizer(role)) return std::nullopt;
    std::optional<std::string> file =
        given(std::string(kEncoderRole) + std::string(role.substr(kTokenizerRole.size())));
    return file && has_gguf_tokenizer(*file) ? file : std::nullopt;
  }
  [[nodiscard]] const PartNeed& need_of(std::string_view role) const {
    const auto found = std::ranges::find(needs_, role, &PartNeed::role);
    HR_CHECK(found != needs_.end());
    return *found;
  }

  std::unique_ptr<PartsSource> source_;
  OpenOptions options_;
  std::vector<PartNeed> needs_;  // the denoiser first
};

}  // namespace

bool is_pipeline_folder(const fs::path& folder) {
  return is_there(folder / kIndexFile) || is_there(folder / kModularIndexFile);
}

std::unique_ptr<PartsSource> open_parts_folder(const fs::path& folder, const OpenOptions& options) {
  return std::make_unique<FolderParts>(folder, options);
}

std::unique_ptr<PartsSource> open_parts_of_networks(
    const std::string& name_or_path, const OpenOptions& options,
    const std::function<std::string(const Component& denoiser)>& class_of) {
  if (is_there(name_or_path) && !is_folder(name_or_path)) {
    // A given part may be a folder with the variant.
    if (std::ranges::none_of(options.parts, [](const auto& part) { return is_folder(part.second); }))
      refuse_variant(options, name_or_path);
    SingleFile file = SingleFile::open(name_or_path);
    return file.family() == nullptr ? nullptr : std::make_unique<FileParts>(std::move(file), options);
  }
  const Component denoiser = open_component(name_or_path, options.for_part({}, /*is_denoiser=*/true));
  std::string class_name = class_of(denoiser);
  if (class_name.empty()) return nullptr;
  const std::string role = denoiser.kind->name.starts_with("UNet") ? "unet" : "transformer";
  return std::make_unique<DenoiserParts>(name_or_path, denoiser.name, std::move(class_name), role, options);
}

std::unique_ptr<PartsSource> with_given_parts(std::unique_ptr<PartsSource> source, const OpenOptions& options,
                                              std::span<const PartNeed> needs) {
  return std::make_unique<GivenParts>(std::move(source), options, needs);
}

void require_parts(const PartsSource& source, std::span<const PartNeed> needs) {
  std::vector<std::string> missing;
  for (const PartNeed& need : needs) {
    if (source.has(need.role) || !need.by_default.empty()) continue;
    const std::string repository = source.repository_of(need.role);
    missing.push_back(fmt::format("{} ({}{}, --part {}={})", need.role, need.class_name,
                                  repository.empty() ? "" : " of " + printable_name(repository), need.role,
                                  is_tokenizer(need.role) ? "FOLDER" : "PATH"));
  }
  if (!missing.empty())
    fail("{} lacks {} of a {}: {}", source.place(), format_count(std::ssize(missing), "part"), source.class_name(),
         fmt::join(missing, ", "));
  for (const PartNeed& need : needs) {
    const std::string named = source.class_of(need.role);
    if (!named.empty() && need.class_name.find(named) == std::string_view::npos && !is_tokenizer(need.role) &&
        need.role != kSchedulerRole)
      fail("{}: {} is {}, expected {}", source.place(), need.role, printable_name(named), need.class_name);
  }
}

}  // namespace headroom
