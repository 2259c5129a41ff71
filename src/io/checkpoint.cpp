#include "io/checkpoint.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/files/hash.hpp"
#include "base/files/truncated_file.hpp"
#include "base/tensors/random.hpp"
#include "base/text/format.hpp"
#include "base/text/json.hpp"
#include "base/text/printable.hpp"
#include "io/foreign_quantization.hpp"
#include "io/gguf.hpp"
#include "io/weights_files.hpp"

namespace headroom {
namespace fs = std::filesystem;

/// The source of a checkpoint's bytes.
class Checkpoint::Source {
 public:
  virtual ~Source() = default;
  [[nodiscard]] virtual std::span<const std::byte> bytes(const TensorSpec& tensor) = 0;
  [[nodiscard]] virtual HostTensor read(const TensorSpec& tensor) = 0;
  virtual void release(const TensorSpec& tensor) = 0;
  virtual void fail_unread(std::string_view /*name*/) const {}
  [[nodiscard]] virtual std::optional<NormalStream> normal_stream(const TensorSpec& /*tensor*/) const {
    return std::nullopt;
  }
};

struct Checkpoint::State {
  nlohmann::json config;
  fs::path folder;
  std::string description;
  std::vector<TensorSpec> tensors;  // by name in order
  std::vector<std::string> unread;  // by name in order
  std::vector<std::string> notes;
  std::unique_ptr<Source> source;
  std::uint64_t total_bytes = 0;
  std::int64_t parameter_count = 0;

  State(nlohmann::json the_config, fs::path the_folder, std::string the_description, std::vector<TensorSpec> all,
        std::unique_ptr<Source> the_source)
      : config(std::move(the_config)),
        folder(std::move(the_folder)),
        description(std::move(the_description)),
        tensors(std::move(all)),
        source(std::move(the_source)) {
    std::ranges::sort(tensors, {}, &TensorSpec::name);
    for (const TensorSpec& tensor : tensors) {
      total_bytes += tensor.size_bytes();
      const bool is_scale = tensor.name.ends_with(".weight_scale");  // of a quantized weight; not a parameter
      if (!is_scale) parameter_count += tensor.shape.numel();
    }
  }
};

namespace {

constexpr std::uint64_t kMostConfigBytes = std::uint64_t{16} << 20;

class FileSource final : public Checkpoint::Source {
 public:
  FileSource(const fs::path& folder, const fs::path& weights) {
    weights.extension() == ".json" ? open_shards(folder, weights) : open_whole(weights);
  }

  [[nodiscard]] std::vector<TensorSpec> tensors() const {
    std::vector<TensorSpec> result;
    for (const auto& [name, file] : file_of_) {
      if (files_[file].unread().contains(name)) continue;
      const SafetensorsEntry& entry = files_[file].entry(name);
      result.push_back({name, entry.dtype, entry.shape});
    }
    return result;
  }
  /// Names of tensors of unsupported types.
  [[nodiscard]] std::vector<std::string> unread() const {
    std::vector<std::string> result;
    for (const auto& [name, file] : file_of_)
      if (files_[file].unread().contains(name)) result.push_back(name);
    return result;
  }
  /// Throws the Error for a tensor of unread().
  void fail_unread(std::string_view name) const override {
    static_cast<void>(files_[file_of_.find(name)->second].entry(name));
  }

  std::span<const std::byte> bytes(const TensorSpec& tensor) override { return file(tensor).bytes(tensor.name); }
  HostTensor read(const TensorSpec& tensor) override { return file(tensor).read(tensor.name); }
  void release(const TensorSpec& tensor) override { file(tensor).release(tensor.name); }

 private:
  void open_whole(const fs::path& path) {
    files_.push_back(SafetensorsFile::open(path));
    for (const auto& [name, entry] : files_.front().entries()) file_of_.emplace(name, 0);
    for (const auto& [name, tensor] : files_.front().unread()) file_of_.emplace(name, 0);
  }

  void open_shards(const fs::path& folder, const fs::path& index) {
    std::map<std::string, std::size_t> opened;
    for (const auto& [tensor, shard] : read_index(index)) {
      if (!opened.contains(shard)) {
        if (!is_there(folder / shard)) {
          fail("{} names the shard {}, which is not there; {} holds {}", index.native(), printable_name(shard),
               folder.native(), contents_of(folder));
        }
        opened.emplace(shard, files_.size());
        files_.push_back(SafetensorsFile::open(folder / shard));
      }
      const std::size_t file = opened.at(shard);
      if (!files_[file].has(tensor)) {
        fail("{} says that {} is in {}, but it is not", index.native(), printable_name(tensor), printable_name(shard));
      }
      file_of_.emplace(tensor, file);
    }
  }

  [[nodiscard]] const SafetensorsFile& file(const TensorSpec& tensor) const { return files_[file_of_.at(tensor.name)]; }

  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::size_t, std::less<>> file_of_;
};

/// A GGUF file. Numbers in blocks are unpacked to f32 when they are read.
class GgufSource final : public Checkpoint::Source {
 public:
  explicit GgufSource(const fs::path& path) : file_(GgufFile::open(path)) {
    if (const std::optional<GgufPart>& part = file_.header().part)
      fail("{} is part {} of {} of a split model, which are not read: join them with `llama-gguf-split --merge`",
           path.native(), part->number, part->count);
  }

  [[nodiscard]] std::vector<TensorSpec> tensors() const {
    std::vector<TensorSpec> result;
    for (const GgufTensor& tensor : file_.header().tensors)
      if (tensor.format->is_read()) result.push_back({std::string(tensor.name), dtype_of(tensor), tensor.shape});
    return result;
  }
  [[nodiscard]] std::vector<std::string> unread() const {
    std::vector<std::string> result;
    for (const GgufTensor& tensor : file_.header().tensors)
      if (!tensor.format->is_read()) result.emplace_back(tensor.name);
    return result;
  }
  void fail_unread(std::string_view name) const override { static_cast<void>(file_.unpack(file_.tensor(name))); }

  std::span<const std::byte> bytes(const TensorSpec& tensor) override {
    const GgufTensor& stored = file_.tensor(tensor.name);
    if (is_plain(stored)) return file_.bytes(stored);
    {
      const std::scoped_lock lock(mutex_);
      if (const auto found = unpacked_.find(tensor.name); found != unpacked_.end()) return found->second.bytes();
    }
    HostTensor values = file_.unpack(stored);
    const std::scoped_lock lock(mutex_);
    return unpacked_.emplace(tensor.name, std::move(values)).first->second.bytes();
  }

  HostTensor read(const TensorSpec& tensor) override {
    const GgufTensor& stored = file_.tensor(tensor.name);
    if (!is_plain(stored)) return file_.unpack(stored);
    HostTensor result(tensor.dtype, tensor.shape);
    std::ranges::copy(file_.bytes(stored), result.bytes().begin());
    require_whole(file_.bytes(stored));
    return result;
  }

  void release(const TensorSpec& tensor) override {
    file_.release(file_.tensor(tensor.name));
    const std::scoped_lock lock(mutex_);
    unpacked_.erase(tensor.name);
  }

 private:
  static DType dtype_of(const GgufTensor& tensor) {
    return parse_safetensors_dtype(tensor.format->name).value_or(DType::kF32);
  }
  /// Whether the elements are in the file as they are read: F32, F16 or BF16.
  static bool is_plain(const GgufTensor& tensor) { return tensor.format->elements == 1; }

  GgufFile file_;
  std::mutex mutex_;                                         // guards unpacked_
  std::map<std::string, HostTensor, std::less<>> unpacked_;  // returned by bytes() and not released yet
};

class RandomSource final : public Checkpoint::Source {
 public:
  explicit RandomSource(std::uint64_t seed) : seed_(seed) {}

  [[nodiscard]] std::optional<NormalStream> normal_stream(const TensorSpec& tensor) const override {
    const bool is_gain = tensor.shape.rank() == 1 && tensor.name.ends_with(".weight");
    return NormalStream{
        .seed = seed_, .stream = Hasher().add(tensor.name).digest(), .mean = is_gain ? 1.0F : 0.0F, .deviation = 0.02F};
  }

  std::span<const std::byte> bytes(const TensorSpec& tensor) override {
    const std::scoped_lock lock(mutex_);
    auto found = made_.find(tensor.name);
    if (found == made_.end()) found = made_.emplace(tensor.name, read(tensor)).first;
    return found->second.bytes();
  }

  HostTensor read(const TensorSpec& tensor) override {
    HostTensor result(tensor.dtype, tensor.shape);
    const auto numel = static_cast<std::uint64_t>(tensor.shape.numel());
    // The tensor may be split among threads at any index, since each element depends only on its index.
    constexpr std::uint64_t kPerThread = std::uint64_t{1} << 20;
    const std::uint64_t cores = std::max(1U, std::thread::hardware_concurrency());
    const std::uint64_t count = std::clamp<std::uint64_t>(numel / kPerThread, 1, cores);
    std::vector<std::jthread> threads;
    for (std::uint64_t i = 1; i < count; ++i) {
      threads.emplace_back([&, i] { fill(tensor, result, numel * i / count, numel * (i + 1) / count); });
    }
    fill(tensor, result, 0, numel / count);
    threads.clear();  // joins
    return result;
  }

  void release(const TensorSpec& tensor) override {
    const std::scoped_lock lock(mutex_);
    made_.erase(tensor.name);
  }

 private:
  /// Fills elements [begin, end) of `result`.
  void fill(const TensorSpec& tensor, HostTensor& result, std::uint64_t begin, std::uint64_t end) const {
    store_normal(result.bytes().data() + begin * size_of(tensor.dtype), tensor.dtype, end - begin,
                 *normal_stream(tensor), begin);
  }

  std::uint64_t seed_;
  std::mutex mutex_;                                     // guards made_
  std::map<std::string, HostTensor, std::less<>> made_;  // returned by bytes() and not released yet
};

struct OpenedWeights {
  std::unique_ptr<Checkpoint::Source> source;
  std::vector<TensorSpec> tensors;
  std::vector<std::string> unread;
  std::vector<std::string> notes = {};
};

template <typename FromFiles>
OpenedWeights opened(std::unique_ptr<FromFiles> source) {
  std::vector<TensorSpec> tensors = source->tensors();
  std::vector<std::string> unread = source->unread();
  return {.source = std::move(source), .tensors = std::move(tensors), .unread = std::move(unread)};
}

/// The weights of a folder.
OpenedWeights open_weights(const fs::path& folder, const nlohmann::json& config) {
  if (std::optional<FoundWeights> found = find_weights(folder)) {
    OpenedWeights weights = opened(std::make_unique<FileSource>(folder, found->path));
    if (!found->note.empty()) weights.notes.push_back(std::move(found->note));
    return weights;
  }
  if (const std::optional<fs::path> gguf = find_gguf(folder)) return opened(std::make_unique<GgufSource>(*gguf));
  refuse_foreign_files(folder, config);
  fail(
      "{} has no weights (diffusion_pytorch_model.safetensors or model.safetensors, the .index.json of their shards, "
      "or "
      "a GGUF file); it holds {}",
      folder.native(), contents_of(folder));
}

}  // namespace

Checkpoint::Checkpoint(std::unique_ptr<State> state) : state_(std::move(state)) {}
Checkpoint::~Checkpoint() = default;
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;

bool has_weights(const fs::path& folder) {
  return std::ranges::any_of(weights_file_names(), [&](const std::string& name) { return is_there(folder / name); }) ||
         find_gguf(folder).has_value();
}

fs::path find_config_folder(const fs::path& folder) {
  if (!is_there(folder)) fail("there is no checkpoint folder {}", folder.native());
  if (!is_folder(folder)) fail("{} is a file, but a checkpoint folder was expected", folder.native());
  for (const fs::path& candidate : {folder, folder / "transformer"}) {
    if (is_there(candidate / "config.json")) return candidate;
  }
  const fs::path fullest = is_folder(folder / "transformer") ? folder / "transformer" : folder;
  refuse_foreign_files(fullest, nullptr);
  fail("{} has no config.json, which a checkpoint folder needs; it holds {}", fullest.native(), contents_of(fullest));
}

nlohmann::json read_config(const fs::path& folder) {
  const fs::path path = folder / "config.json";
  nlohmann::json config = parse_json(read_file(path, {.most_bytes = kMostConfigBytes}), path.native());
  if (!config.is_object()) fail("{} is not a JSON object", path.native());
  return config;
}

Checkpoint Checkpoint::open(const fs::path& folder) {
  try {
    fs::path found = find_config_folder(folder);
    nlohmann::json config = read_config(found);
    OpenedWeights weights = open_weights(found, config);
    refuse_foreign_tensors(found, config, weights.tensors, weights.unread);
    std::string description = found.native();
    auto state = std::make_unique<State>(std::move(config), std::move(found), std::move(description),
                                         std::move(weights.tensors), std::move(weights.source));
    state->unread = std::move(weights.unread);
    state->notes = std::move(weights.notes);
    return Checkpoint(std::move(state));
  } catch (const fs::filesystem_error& error) {
    fail("cannot read {}: {}", error.path1().native(), error.code().message());
  }
}

Checkpoint Checkpoint::random(nlohmann::json config, std::vector<TensorSpec> tensors, std::uint64_t seed) {
  std::set<std::string_view> names;
  for (const TensorSpec& tensor : tensors) {
    if (!headroom::is_float(tensor.dtype)) {
      fail("cannot make random weights for {}: its dtype is {}, but a floating-point one was expected", tensor.name,
           tensor.dtype);
    }
    if (!names.insert(tensor.name).second) fail("cannot make random weights: two tensors are called {}", tensor.name);
  }
  return Checkpoint(std::make_unique<State>(std::move(config), fs::path(),
                                            fmt::format("random weights (seed {})", seed), std::move(tensors),
                                            std::make_unique<RandomSource>(seed)));
}

const nlohmann::json& Checkpoint::config() const noexcept { return state_->config; }
const fs::path& Checkpoint::folder() const noexcept { return state_->folder; }
const std::string& Checkpoint::description() const noexcept { return state_->description; }
bool Checkpoint::is_random() const noexcept { return state_->folder.empty(); }
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
HostTensor Checkpoint::read(std::string_view name) const { return state_->source->read(entry(name)); }
std::optional<NormalStream> Checkpoint::normal_stream(std::string_view name) const {
  return state_->source->normal_stream(entry(name));
}
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
