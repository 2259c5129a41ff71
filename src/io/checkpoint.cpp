#include "io/checkpoint.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/text/format.hpp"
#include "base/text/json.hpp"
#include "base/text/printable.hpp"
#include "io/foreign_quantization.hpp"
#include "io/tensor_source.hpp"
#include "io/weights_files.hpp"

namespace headroom {
namespace fs = std::filesystem;

struct Checkpoint::State {
  nlohmann::json config;
  fs::path folder;
  std::string description;
  std::vector<TensorSpec> tensors;  // by name in order
  std::vector<std::string> unread;  // by name in order
  std::vector<std::string> notes;
  std::shared_ptr<TensorSource> source;
  bool is_random = false;
  std::uint64_t total_bytes = 0;
  std::int64_t parameter_count = 0;

  State(nlohmann::json the_config, fs::path the_folder, std::string the_description,
        std::shared_ptr<TensorSource> the_source)
      : config(std::move(the_config)),
        folder(std::move(the_folder)),
        description(std::move(the_description)),
        tensors(the_source->tensors()),
        unread(the_source->unread()),
        source(std::move(the_source)) {
    std::ranges::sort(tensors, {}, &TensorSpec::name);
    std::ranges::sort(unread);
    for (const TensorSpec& tensor : tensors) {
      total_bytes += tensor.size_bytes();
      const bool is_scale = tensor.name.ends_with(".weight_scale");  // of a quantized weight; not a parameter
      if (!is_scale) parameter_count += tensor.shape.numel();
    }
  }
};

namespace {

constexpr std::uint64_t kMostConfigBytes = std::uint64_t{16} << 20;

struct OpenedWeights {
  std::shared_ptr<TensorSource> source;
  std::string note = {};
};

/// The weights of a folder.
OpenedWeights open_weights(const fs::path& folder, const nlohmann::json& config, std::string_view variant) {
  if (std::optional<FoundWeights> found = find_weights(folder, variant))
    return {open_safetensors(found->path), std::move(found->note)};
  if (const std::optional<fs::path> gguf = find_gguf(folder); gguf && variant.empty()) return {open_gguf(*gguf)};
  refuse_foreign_files(folder, config);
  if (!variant.empty())
    fail("{} has no weights of the variant {} (such as {}); it holds {}", folder.native(), variant,
         weights_file_names(variant).front(), contents_of(folder));
  fail(
      "{} has no weights (diffusion_pytorch_model.safetensors or model.safetensors, the .index.json of their shards, a "
      "variant of these such as {}, or a GGUF file); it holds {}",
      folder.native(), weights_file_names("fp16").front(), contents_of(folder));
}

}  // namespace

Checkpoint::Checkpoint(std::unique_ptr<State> state) : state_(std::move(state)) {}
Checkpoint::~Checkpoint() = default;
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;

bool has_weights(const fs::path& folder) { return has_weights_file(folder) || find_gguf(folder).has_value(); }

fs::path find_config_folder(const fs::path& folder) {
  if (!is_there(folder)) fail("there is no checkpoint folder {}", folder.native());
  if (!is_folder(folder)) fail("{} is a file, but a checkpoint folder was expected", folder.native());
  fs::path fullest = folder;
  for (const fs::path& candidate : {folder, folder / "transformer", folder / "unet"}) {
    if (is_there(candidate / "config.json")) return candidate;
    if (fullest == folder && is_folder(candidate)) fullest = candidate;
  }
  refuse_foreign_files(fullest, nullptr);
  fail("{} has no config.json, which a checkpoint folder needs; it holds {}", fullest.native(), contents_of(fullest));
}

nlohmann::json read_config(const fs::path& folder) {
  const fs::path path = folder / "config.json";
  nlohmann::json config = parse_json(read_file(path, {.most_bytes = kMostConfigBytes}), path.native());
  if (!config.is_object()) fail("{} is not a JSON object", path.native());
  return config;
}

Checkpoint Checkpoint::open(const fs::path& folder, std::string_view variant) {
  try {
    fs::path found = find_config_folder(folder);
    nlohmann::json config = read_config(found);
    OpenedWeights weights = open_weights(found, config, variant);
    std::string description = found.native();
    auto state =
        std::make_unique<State>(std::move(config), std::move(found), std::move(description), std::move(weights.source));
    refuse_foreign_tensors(state->folder, state->config, state->tensors, state->unread);
    if (!weights.note.empty()) state->notes.push_back(std::move(weights.note));
    return Checkpoint(std::move(state));
  } catch (const fs::filesystem_error& error) {
    fail("cannot read {}: {}", error.path1().native(), error.code().message());
  }
}

Checkpoint Checkpoint::of(nlohmann::json config, std::string description, std::shared_ptr<TensorSource> source,
                          std::vector<std::string> notes) {
  auto state = std::make_unique<State>(std::move(config), fs::path(), std::move(description), std::move(source));
  state->notes = std::move(notes);
  return Checkpoint(std::move(state));
}

Checkpoint Checkpoint::random(nlohmann::json config, std::vector<TensorSpec> tensors, std::uint64_t seed,
                              const BlockFormat* format) {
  std::set<std::string_view> names;
  for (const TensorSpec& tensor : tensors) {
    if (!headroom::is_float(tensor.dtype)) {
      fail("cannot make random weights for {}: its dtype is {}, but a floating-point one was expected", tensor.name,
           tensor.dtype);
    }
    if (!names.insert(tensor.name).second) fail("cannot make random weights: two tensors are called {}", tensor.name);
  }
  auto state = std::make_unique<State>(std::move(config), fs::path(), fmt::format("random weights (seed {})", seed),
                                       make_random_tensors(std::move(tensors), seed, format));
  state->is_random = true;
  return Checkpoint(std::move(state));
}

const nlohmann::json& Checkpoint::config() const noexcept { return state_->config; }
const fs::path& Checkpoint::folder() const noexcept { return state_->folder; }
const std::string& Checkpoint::description() const noexcept { return state_->description; }
bool Checkpoint::is_random() const noexcept { return state_->is_random; }
std::vector<fs::path> Checkpoint::files() const { return state_->source->files(); }
std::span<const std::string> Checkpoint::notes() const noexcept { return state_->notes; }
std::span<const TensorSpec> Checkpoint::tensors() const noexcept { return state_->tensors; }
std::span<const std::string> Checkpoint::unread() const noexcept { return state_->unread; }
std::uint64_t Checkpoint::total_bytes() const noexcept { return state_->total_bytes; }
std::int64_t Checkpoint::parameter_count() const noexcept { return state_->parameter_count; }

const TensorSpec* Checkpoint::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(state_->tensors, name, {}, &TensorSpec::name);
  return found == state_->tensors.end() || found->name != name ? nullptr : &*found;
}

bool Checkpoint::has(std::string_view name) const { return find(name) != nullptr || is_unread(name); }

bool Checkpoint::is_unread(std::string_view name) const { return std::ranges::binary_search(state_->unread, name); }

const TensorSpec& Checkpoint::entry(std::string_view name) const {
  const TensorSpec* found = find(name);
  if (found == nullptr && is_unread(name)) state_->source->fail_unread(name);
  if (found == nullptr) fail("{} has no tensor {}", description(), printable_name(name));
  return *found;
}

std::span<const std::byte> Checkpoint::bytes(std::string_view name) const { return state_->source->bytes(entry(name)); }
bool Checkpoint::is_narrow(std::string_view name) const { return state_->source->is_narrow(entry(name)); }
const BlockFormat* Checkpoint::block_format(std::string_view name) const {
  return state_->source->block_format(entry(name));
}
std::span<const std::byte> Checkpoint::blocks(std::string_view name) const {
  const TensorSpec& tensor = entry(name);
  return state_->source->blocks(tensor, {0, tensor.shape.rank() == 0 ? 1 : tensor.shape[0]});
}
HostTensor Checkpoint::read(std::string_view name) const { return state_->source->read(entry(name)); }
std::optional<NormalStream> Checkpoint::normal_stream(std::string_view name) const {
  return state_->source->normal_stream(entry(name));
}
std::optional<std::span<const std::byte>> Checkpoint::device_bytes(std::string_view name) const {
  return state_->source->device_bytes(entry(name));
}
bool Checkpoint::is_freed(std::string_view name) const { return state_->source->is_freed(entry(name)); }
void Checkpoint::finish(std::string_view name) const { state_->source->finish(entry(name)); }
void Checkpoint::release(std::string_view name) const { state_->source->release(entry(name)); }

std::vector<std::string> check_params(const Checkpoint& checkpoint, std::span<const TensorSpec> expected,
                                      IsIgnored is_ignored) {
  std::vector<std::string> missing;
  std::vector<std::string> unread;
  std::vector<std::string> unexpected;
  std::vector<std::string> reshaped;
  std::set<std::string_view> known;
  for (const TensorSpec& tensor : expected) {
    known.insert(tensor.name);
    if (!checkpoint.has(tensor.name)) {
      missing.push_back(tensor.name);
    } else if (std::ranges::binary_search(checkpoint.unread(), tensor.name)) {
      unread.push_back(tensor.name);
    } else if (const Shape& shape = checkpoint.entry(tensor.name).shape; !(shape == tensor.shape)) {
      reshaped.push_back(fmt::format("{} is {} instead of {}", tensor.name, shape, tensor.shape));
    }
  }
  const auto look_at = [&](const std::string& name) {
    if (!known.contains(name) && !(is_ignored != nullptr && is_ignored(name))) unexpected.push_back(name);
  };
  for (const TensorSpec& tensor : checkpoint.tensors()) look_at(tensor.name);
  std::ranges::for_each(checkpoint.unread(), look_at);
  std::vector<std::string> sentences;
  const auto report = [&](std::string_view verb, std::string_view kind, const std::vector<std::string>& names) {
    if (names.empty()) return;
    sentences.push_back(fmt::format("{} {} {} {}: {}", checkpoint.description(), verb,
                                    format_count(std::ssize(names), "tensor"), kind, join_some(names)));
  };
  report("lacks", "that the model needs", missing);
  report("has", "of a type that is not read", unread);
  report("has", "that the model does not know", unexpected);
  report("has", "whose shape is not the model's", reshaped);
  return sentences;
}

void require_params(const Checkpoint& checkpoint, std::span<const TensorSpec> expected, IsIgnored is_ignored) {
  const std::vector<std::string> sentences = check_params(checkpoint, expected, is_ignored);
  if (!sentences.empty()) fail("{}", fmt::join(sentences, "; "));
}

}  // namespace headroom
