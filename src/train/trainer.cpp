#include "train/trainer.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/files/leftovers.hpp"
#include "base/text/json.hpp"
#include "base/text/name_filter.hpp"
#include "io/safetensors.hpp"
#include "ir/op_definition.hpp"
#include "run/fit.hpp"
#include "train/initial_weights.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTrainingFormat = "headroom.training/1";
constexpr std::string_view kStepPrefix = "step-";

/// What a switch may not change is set by CONFIG's own keys.
void require_exact(const SwitchSet& switches) {
  for (const SwitchInfo& info : all_switches())
    if (!info.exact && switches.has(info.name))
      fail_usage(
          "train: switch '{}' changes the numbers of a model, expected switches that are exact; the key "
          "precision of CONFIG chooses bf16 or f16",
          info.name);
}

/// The weights that decay, by name or by shape.
std::function<bool(const std::string&, const Shape&)> decay_rule(const std::string& excluded) {
  if (excluded.empty()) return [](const std::string&, const Shape& shape) { return shape.rank() > 1; };
  const auto filter = std::make_shared<NameFilter>(excluded);
  return [filter](const std::string& name, const Shape&) { return !filter->takes(name); };
}

/// The FLOPs of the products of a forward graph.
double flops_of_products(const Graph& graph) {
  double flops = 0;
  for (const Node& node : graph.nodes()) {
    if (!is_contraction(node.op)) continue;
    const auto types_of = [&](std::span<const ValueId> values) {
      std::vector<TensorType> types;
      for (const ValueId value : values) types.push_back(graph.type(value));
      return types;
    };
    flops += definition_of(node.op).flops.count(node.attributes, types_of(node.inputs), types_of(node.results));
  }
  return flops;
}

}  // namespace

bool StepRecord::is_skipped() const { return !std::isfinite(norm); }

Trainer::Trainer(TrainingConfig config, const SwitchSet& switches, Backend& backend)
    : config_(std::move(config)),
      backend_(backend),
      switches_(switches),
      objective_(make_objective(config_)),
      store_(backend) {
  require_exact(switches);
  if (!config_.start.empty()) {
    start_.emplace(Checkpoint::open(config_.start));
    store_.add("", *start_);
  }
  if (!config_.frozen.empty()) frozen_ = std::make_unique<NameFilter>(config_.frozen);
  const ParamSource params{.dtype =
                               [this](std::string_view name) {
                                 return is_trained(std::string(name)) ? DType::kF32 : start_->entry(name).dtype;
                               },
                           .has = start_ ? [this](std::string_view name) { return start_->has(name); }
                                         : std::function<bool(std::string_view)>()};
  loss_ = objective_->loss(params, config_.size.micro_batches);
  flops_ = 3 * static_cast<double>(config_.size.micro_batches) * flops_of_products(loss_);
  for (const ValueId param : loss_.values_of(ValueKind::kParam))
    if (const std::string& name = loss_.value(param).name; !is_trained(name)) {
      if (!start_->has(name)) fail("{}: has no weight {}, which is frozen", config_.start.native(), name);
      frozen_weights_.push_back(name);
    }
  if (frozen_ != nullptr && frozen_weights_.empty()) fail("frozen: \"{}\" matches no weight", config_.frozen);
  prepare_loss(loss_, config_.precision, backend.properties().target);
  recipe_ = {.micro_batches = config_.size.micro_batches,
             .adamw = config_.optimizer,
             .loss_scaling = config_.loss_scaling,
             .is_trained = [this](const std::string& name) { return is_trained(name); },
             .decays = decay_rule(config_.no_weight_decay)};
  TrainingStep step = build_training_step(loss_, recipe_);
  weights_ = std::move(step.weights);
  compiled_ = compile(std::move(step.graph), switches, backend.properties().target);
}

Trainer::~Trainer() = default;

bool Trainer::is_trained(const std::string& weight) const { return frozen_ == nullptr || !frozen_->takes(weight); }

const Shape& Trainer::shape_of(const TrainedWeight& weight) const {
  const Graph& graph = compiled_.program->graph;
  return graph.type(graph.find(ValueKind::kState, weight.name)).shape;
}

std::int64_t Trainer::parameters() const noexcept {
  std::int64_t count = 0;
  for (const TrainedWeight& weight : weights_) count += shape_of(weight).numel();
  return count;
}

std::int64_t Trainer::frozen_parameters() const noexcept {
  std::int64_t count = 0;
  for (const std::string& name : frozen_weights_)
    count += loss_.type(loss_.find(ValueKind::kParam, name)).shape.numel();
  return count;
}

MemoryNeed Trainer::need() const { return memory_need(*compiled_.program, store_); }

void Trainer::require_memory() const {
  require_fit(*compiled_.program,
              {.model = "a step", .switches = switches_, .size = {}, .compile = {}, .suggests = false}, store_,
              backend_);
}

void Trainer::require_start() const {
  require_memory();
  for (const TrainedWeight& weight : weights_)
    if (!start_) require_rule(weight.name, shape_of(weight), config_.initialization);
}

/// Makes the session; all states are 0.
void Trainer::start() {
  require_memory();
  session_ = std::make_unique<Session>(compiled_.program, store_, backend_);
  const Graph& graph = compiled_.program->graph;
  for (const ValueId state : graph.values_of(ValueKind::kState)) {
    const auto& [kind, name, type] = graph.value(state);
    session_->set_state(name, HostTensor(type.dtype, type.shape));
  }
  session_->set_input(kRatesInput, rate_table(config_.optimizer));
}

/// The file of a weight, and its name there.
namespace {

std::pair<std::string, std::string> place_of(const Objective& objective, const std::string& weight) {
  for (const WeightsFile& file : objective.files())
    if (weight.starts_with(file.prefix)) return {std::string(file.name), weight.substr(file.prefix.size())};
  HR_CHECK(false);
}

}  // namespace

HostTensor Trainer::first_weight(const TrainedWeight& weight) const {
  const auto [file, name] = place_of(*objective_, weight.name);
  const auto fitting = [&](const HostTensor& found) {
    if (!is_float(found.dtype()))
      fail("{}: {} is {}, and only floats are trained: name it in frozen", config_.start.native(), weight.name,
           found.dtype());
    if (found.shape() != shape_of(weight))
      fail("{}: {} is {}, expected {}", config_.start.native(), weight.name, found.shape(), shape_of(weight));
    return convert(found, DType::kF32);
  };
  if (start_) {
    if (start_->has(weight.name)) return fitting(start_->read(weight.name));
    if (const fs::path path = config_.start / file; name != weight.name && is_there(path))
      return fitting(SafetensorsFile::open(path).read(name));
    if (name == weight.name) fail("{}: has no weight {}", config_.start.native(), weight.name);
  }
  return initial_weight(weight.name, shape_of(weight), config_.initialization, std::ssize(loss_.blocks()),
                        config_.seed);
}

/// A weight, and its copy.
void Trainer::set_weight(const TrainedWeight& weight, const HostTensor& value) {
  session_->set_state(weight.name, value);
  if (weight.copy == kNoValue) return;
  const Graph& graph = compiled_.program->graph;
  const std::string copy = copy_name(weight.name);
  session_->set_state(copy, convert(value, graph.type(graph.find(ValueKind::kState, copy)).dtype));
}

void Trainer::initialize() {
  start();
  for (const TrainedWeight& weight : weights_) {
    const HostTensor first = first_weight(weight);
    set_weight(weight, first);
    if (config_.optimizer.average > 0) session_->set_state(average_name(weight.name), first);
  }
  if (config_.loss_scaling) {
    HostTensor scale(DType::kF32, {});
    scale.set(0, config_.loss_scaling->initial);
    session_->set_state(kLossScaleState, scale);
  }
  done_ = 0;
}

/// The state that a checkpoint's file of weights holds.
std::string Trainer::state_of_checkpoint(const std::string& weight) const {
  return config_.optimizer.average > 0 ? average_name(weight) : weight;
}

/// The states of `optimizer.safetensors`: all that the files of weights do not hold.
std::vector<std::string> Trainer::optimizer_states() const {
  std::vector<std::string> names = {std::string(kUpdatesState)};
  for (const TrainedWeight& weight : weights_) {
    names.push_back(first_moment_name(weight.name));
    names.push_back(second_moment_name(weight.name));
    if (config_.optimizer.average > 0) names.push_back(weight.name);
  }
  if (config_.loss_scaling)
    for (const std::string_view name : {kLossScaleState, kGoodStepsState, kBadStepsState}) names.emplace_back(name);
  return names;
}

void Trainer::load(const fs::path& folder) {
  const fs::path path = folder / "training.json";
  const nlohmann::json saved = read_json(path);
  if (get_string(saved, "format", path.native()) != kTrainingFormat)
    fail("{}: format is {}, expected \"{}\"", path.native(), saved.at("format").dump(), kTrainingFormat);
  const nlohmann::json& run = get(saved, "run", path.native());
  const nlohmann::json own = config_.determining();
  std::set<std::string> keys;
  for (const nlohmann::json* const values : {&run, &own})
    for (const auto& [key, value] : values->items()) keys.insert(key);
  const auto shown = [](const nlohmann::json& values, const std::string& key) {
    return values.contains(key) ? values.at(key).dump() : "none";
  };
  for (const std::string& key : keys)
    if (shown(run, key) != shown(own, key))
      fail("{}: was trained with another '{}': {}, not {}", folder.native(), key, shown(run, key), shown(own, key));
  if (const nlohmann::json& data = get(saved, "data", path.native()); data != objective_->data_identity())
    fail("{}: was trained on other data: {}, not {}", folder.native(), data.dump(), objective_->data_identity().dump());
  start();
  load_weights(folder);
  const SafetensorsFile optimizer = SafetensorsFile::open(folder / "optimizer.safetensors");
  for (const std::string& name : optimizer_states()) {
    const auto weight = std::ranges::find(weights_, name, &TrainedWeight::name);
    if (weight != weights_.end())
      set_weight(*weight, optimizer.read(name));
    else
      session_->set_state(name, optimizer.read(name));
  }
  done_ = get_int(saved, "step", path.native());
}

void Trainer::load_weights(const fs::path& folder) {
  std::map<std::string, SafetensorsFile> files;
  for (const WeightsFile& file : objective_->files())
    files.emplace(file.name, SafetensorsFile::open(folder / file.name));
  for (const TrainedWeight& weight : weights_) {
    const auto [file, name] = place_of(*objective_, weight.name);
    if (config_.optimizer.average > 0)
      session_->set_state(average_name(weight.name), files.at(file).read(name));
    else
      set_weight(weight, files.at(file).read(name));
  }
  for (const std::string& weight : frozen_weights_) {
    const auto [file, name] = place_of(*objective_, weight);
    if (!std::ranges::equal(files.at(file).bytes(name), start_->bytes(weight)))
      fail("{}: was trained with another frozen {} than that of {}", folder.native(), weight, config_.start.native());
  }
}

namespace {

/// Sets the inputs; a leading axis of micro-batches is that of the program.
void set_inputs(Session& session, const BatchData& data) {
  for (const auto& [name, tensor] : data.tensors) session.set_input(name, tensor);
  for (const auto& [name, normal] : data.normals) session.set_input_normal(name, normal);
}

}  // namespace

StepRecord Trainer::step() {
  HR_CHECK(session_ != nullptr);
  const auto start = std::chrono::steady_clock::now();
  if (!prepared_ || prepared_->first != done_) prepared_.emplace(done_, objective_->data(done_));
  set_inputs(*session_, prepared_->second);
  session_->submit();
  ++done_;
  prepared_.reset();  // the host prepares the next step's data while a device works on this one's
  if (done_ < config_.steps) prepared_.emplace(done_, objective_->data(done_));
  const auto number = [&](std::string_view name) { return session_->output(name).at(0); };
  StepRecord record{.step = done_, .loss = number("loss"), .norm = number("norm"), .rate = number("rate")};
  if (config_.loss_scaling) record.loss_scale = number(kLossScaleState);
  record.ms = milliseconds_since(start);
  return record;
}

std::optional<double> Trainer::validate(const std::function<bool()>& should_stop) {
  HR_CHECK(session_ != nullptr && objective_->has_validation());
  if (!validating_) {
    // `loss_` is divided by all micro-batches of a step.
    validating_ = std::make_unique<Session>(
        compile(build_validation(loss_, recipe_), switches_, backend_.properties().target).program, store_, backend_);
  }
  for (const TrainedWeight& weight : weights_)
    validating_->set_state(weight.name, session_->state(state_of_checkpoint(weight.name)));
  double loss = 0;
  for (std::int64_t i = 0; i < config_.validation_batches * config_.size.micro_batches; ++i) {
    if (should_stop && should_stop()) return std::nullopt;
    set_inputs(*validating_, objective_->validation(i));
    validating_->run();
    loss += validating_->output("loss").at(0);
  }
  return loss / static_cast<double>(config_.validation_batches);
}

void Trainer::save(const fs::path& folder) const {
  HR_CHECK(session_ != nullptr);
  PartialFolder partial(folder);
  std::map<std::string, std::map<std::string, HostTensor>> files;
  for (const TrainedWeight& weight : weights_) {
    const auto [file, name] = place_of(*objective_, weight.name);
    files[file].emplace(name, session_->state(state_of_checkpoint(weight.name)));
  }
  for (const std::string& weight : frozen_weights_) {
    const auto [file, name] = place_of(*objective_, weight);
    files[file].emplace(name, start_->read(weight));
  }
  for (const auto& [file, tensors] : files) write_safetensors(partial.path() / file, tensors, {{"format", "pt"}});
  std::map<std::string, HostTensor> optimizer;
  for (const std::string& name : optimizer_states()) optimizer.emplace(name, session_->state(name));
  write_safetensors(partial.path() / "optimizer.safetensors", optimizer);
  write_json(partial.path() / "config.json", objective_->checkpoint_config());
  write_json(partial.path() / "training.json", {{"format", kTrainingFormat},
                                                {"step", done_},
                                                {"run", config_.determining()},
                                                {"data", objective_->data_identity()}});
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

void remove_unfinished_checkpoints(const fs::path& folder) {
  for (const fs::path& path : list_folder(folder)) {
    const std::string name = path.filename().native(), whole = name.substr(0, name.find(kPartialMark));
    const bool is_checkpoint = whole.size() > kStepPrefix.size() && whole.starts_with(kStepPrefix) &&
                               whole.find_first_not_of("0123456789", kStepPrefix.size()) == std::string::npos;
    if (is_checkpoint && (whole != name || !is_there(path / "training.json"))) fs::remove_all(path);
  }
}

}  // namespace headroom
