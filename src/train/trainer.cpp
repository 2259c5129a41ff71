#include "train/trainer.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <map>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/files/leftovers.hpp"
#include "base/text/json.hpp"
#include "base/text/name_filter.hpp"
#include "io/checkpoint.hpp"
#include "models/config.hpp"
#include "train/initial_weights.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTrainingFormat = "headroom.training/1";
constexpr std::string_view kStepPrefix = "step-";

/// Training computes in f32 so far, so a switch must not change precision, nor be one of another kind of run.
void require_exact(const SwitchSet& switches) {
  for (const SwitchInfo& info : all_switches())
    if (!info.exact && switches.has(info.name))
      fail_usage("train: switch '{}' changes the numbers of a model, expected switches that are exact", info.name);
}

/// The weights that decay, by name or by shape.
std::function<bool(const std::string&, const Shape&)> decay_rule(const std::string& excluded) {
  if (excluded.empty()) return [](const std::string&, const Shape& shape) { return shape.rank() > 1; };
  const auto filter = std::make_shared<NameFilter>(excluded);
  return [filter](const std::string& name, const Shape&) { return !filter->takes(name); };
}

nlohmann::json identity_of(const TokenFile& file) {
  return {{"tokens", file.ids().size()}, {"hash", fmt::format("{:016x}", file.hash())}};
}

std::map<std::string, HostTensor> read_states(const Session& session, const std::vector<std::string>& names) {
  std::map<std::string, HostTensor> tensors;
  for (const std::string& name : names) tensors.emplace(name, session.state(name));
  return tensors;
}

/// The states of a file, which must have each of `names` and no other.
void load_states(Session& session, const fs::path& path, const std::vector<std::string>& names) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  if (file.entries().size() != names.size())
    fail("{}: has {} tensors, expected {}", path.native(), file.entries().size(), names.size());
  for (const std::string& name : names) session.set_state(name, file.read(name));
}

}  // namespace

bool StepRecord::is_skipped() const { return !std::isfinite(norm); }

Trainer::Trainer(TrainingConfig config, const SwitchSet& switches, Backend& backend)
    : config_(std::move(config)),
      backend_(backend),
      switches_(switches),
      model_{&class_of(config_.model), &config_.model},
      data_(TokenFile::open(config_.data)),
      store_(backend) {
  require_exact(switches);
  sequences_.emplace(data_.ids(), config_.size.tokens, config_.seed);
  require_ids(data_);
  if (!config_.validation_data.empty()) {
    validation_data_.emplace(TokenFile::open(config_.validation_data));
    require_ids(*validation_data_);
    validation_.emplace(validation_data_->ids(), config_.size.tokens, 0);
  }
  TrainingStep step = build_training_step(model_, config_.size, config_.optimizer, decay_rule(config_.no_weight_decay));
  weights_ = std::move(step.weights);
  blocks_ = std::ssize(model_.forward(1, 1).blocks());
  compiled_ = compile(std::move(step.graph), switches, backend.properties().target);
}

Trainer::~Trainer() = default;

void Trainer::require_ids(const TokenFile& file) const {
  const std::int64_t known = config::read_int(config_.model, "vocab_size", config::kMaxExtent, 1, config::kMaxExtent);
  const std::span<const std::uint16_t> ids = file.ids();
  const auto largest = std::ranges::max_element(ids);
  if (largest != ids.end() && *largest >= known)
    fail("{}: has the id {}, but the model's vocab_size is {}", file.path().native(), *largest, known);
}

std::int64_t Trainer::parameters() const noexcept {
  std::int64_t count = 0;
  const Graph& graph = compiled_.program->graph;
  for (const TrainedWeight& weight : weights_)
    count += graph.type(graph.find(ValueKind::kState, weight.name)).shape.numel();
  return count;
}

MemoryNeed Trainer::need() const { return memory_need(*compiled_.program, store_); }

/// Makes the session; all states are 0.
void Trainer::start() {
  session_ = std::make_unique<Session>(compiled_.program, store_, backend_);
  const Graph& graph = compiled_.program->graph;
  for (const ValueId state : graph.values_of(ValueKind::kState)) {
    const auto& [kind, name, type] = graph.value(state);
    session_->set_state(name, HostTensor(type.dtype, type.shape));
  }
  session_->set_input(kRatesInput, rate_table(config_.optimizer));
}

void Trainer::initialize() {
  start();
  const Graph& graph = compiled_.program->graph;
  for (const TrainedWeight& weight : weights_)
    session_->set_state(weight.name,
                        initial_weight(weight.name, graph.type(graph.find(ValueKind::kState, weight.name)).shape,
                                       config_.initialization, blocks_, config_.seed));
  done_ = 0;
}

namespace {

std::vector<std::string> weight_names(const std::vector<TrainedWeight>& weights) {
  std::vector<std::string> names;
  for (const TrainedWeight& weight : weights) names.push_back(weight.name);
  return names;
}

std::vector<std::string> optimizer_names(const std::vector<TrainedWeight>& weights) {
  std::vector<std::string> names = {std::string(kUpdatesState)};
  for (const TrainedWeight& weight : weights) {
    names.push_back(first_moment_name(weight.name));
    names.push_back(second_moment_name(weight.name));
  }
  return names;
}

}  // namespace

nlohmann::json Trainer::data_identity() const { return identity_of(data_); }

void Trainer::load(const fs::path& folder) {
  const fs::path path = folder / "training.json";
  const nlohmann::json saved = read_json(path);
  if (get_string(saved, "format", path.native()) != kTrainingFormat)
    fail("{}: format is {}, expected \"{}\"", path.native(), saved.at("format").dump(), kTrainingFormat);
  const nlohmann::json& run = get(saved, "run", path.native());
  const nlohmann::json own = config_.determining();
  for (const auto& [key, value] : own.items())
    if (!run.contains(key) || run.at(key) != value)
      fail("{}: was trained with another '{}': {}, not {}", folder.native(), key,
           run.contains(key) ? run.at(key).dump() : "none", value.dump());
  if (const nlohmann::json& data = get(saved, "data", path.native()); data != data_identity())
    fail("{}: was trained on other data: {}, not {}", folder.native(), data.dump(), data_identity().dump());
  start();
  load_states(*session_, folder / "model.safetensors", weight_names(weights_));
  load_states(*session_, folder / "optimizer.safetensors", optimizer_names(weights_));
  done_ = get_int(saved, "step", path.native());
}

StepRecord Trainer::step() {
  HR_CHECK(session_ != nullptr);
  const auto start = std::chrono::steady_clock::now();
  HostTensor tokens(DType::kI32, {config_.size.micro_batches, config_.size.batch, config_.size.tokens + 1});
  sequences_->fill(tokens, done_ * config_.size.micro_batches * config_.size.batch);
  session_->set_input(kTokensInput, tokens);
  session_->run();
  ++done_;
  const auto number = [&](const char* name) { return session_->output(name).at(0); };
  return {.step = done_,
          .loss = number("loss"),
          .norm = number("norm"),
          .rate = number("rate"),
          .ms = milliseconds_since(start)};
}

double Trainer::validate() {
  HR_CHECK(session_ != nullptr && validation_.has_value());
  const StepSize& size = config_.size;
  if (!validating_)
    validating_ = std::make_unique<Session>(
        compile(build_loss(model_, size), switches_, backend_.properties().target).program, store_, backend_);
  for (const TrainedWeight& weight : weights_) validating_->set_state(weight.name, session_->state(weight.name));
  HostTensor tokens(DType::kI32, {size.batch, size.tokens + 1});
  double loss = 0;
  for (std::int64_t i = 0; i < config_.validation_batches; ++i) {
    validation_->fill_in_order(tokens, i * size.batch);
    validating_->set_input(kTokensInput, tokens);
    validating_->run();
    loss += validating_->output("loss").at(0);
  }
  return loss / static_cast<double>(config_.validation_batches);
}

void Trainer::save(const fs::path& folder) const {
  HR_CHECK(session_ != nullptr);
  PartialFolder partial(folder);
  write_safetensors(partial.path() / "model.safetensors", read_states(*session_, weight_names(weights_)),
                    {{"format", "pt"}});
  write_safetensors(partial.path() / "optimizer.safetensors", read_states(*session_, optimizer_names(weights_)));
  write_json(partial.path() / "config.json", config_.model);
  write_json(partial.path() / "training.json",
             {{"format", kTrainingFormat}, {"step", done_}, {"run", config_.determining()}, {"data", data_identity()}});
  partial.commit();
}

std::string checkpoint_name(std::int64_t step) { return fmt::format("{}{:08}", kStepPrefix, step); }

std::map<std::int64_t, fs::path> list_checkpoints(const fs::path& folder) {
  std::map<std::int64_t, fs::path> found;
  if (!is_there(folder)) return found;
  for (const fs::path& path : list_folder(folder)) {
    const std::string name = path.filename().native();
    if (!name.starts_with(kStepPrefix) || !is_there(path / "training.json")) continue;
    std::int64_t step = 0;
    const char* const end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data() + kStepPrefix.size(), end, step);
    if (error == std::errc() && stop == end) found.emplace(step, path);
  }
  return found;
}

}  // namespace headroom
