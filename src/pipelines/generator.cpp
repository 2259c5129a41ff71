#include "pipelines/generator.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "ir/ranks/collectives.hpp"
#include "passes/step_caches/step_cache.hpp"
#include "pipelines/stages/stacks.hpp"
#include "run/fit.hpp"
#include "run/memory_need.hpp"

namespace headroom {
namespace {

constexpr std::string_view kLatents = "latents";

std::optional<DeviceStage> compile_coder(std::string name, const std::optional<Pipeline::ImageCoder>& coder,
                                         const Request& request, const TokenSize& size, const SwitchSet& switches,
                                         const DeviceTarget& target) {
  if (!coder) return std::nullopt;
  const SwitchSet own = coder->overflows_f16 ? switches.without("fp16") : switches;
  return compile_stage(std::move(name), *coder->component, coder->build(request, size), own, target);
}

/// Merges the reports of all stages: a switch is applied if it changed something in any stage, and declined if it
/// changed nothing.
void tell_of_all(Compiled& one, const std::vector<const DeviceStage*>& stages, const SwitchSet& switches) {
  std::vector<std::string> applied;
  for (const std::string& name : switches.names())
    if (std::ranges::any_of(stages, [&](const DeviceStage* stage) {
          return std::ranges::find(stage->compiled.applied, name) != stage->compiled.applied.end();
        }))
      applied.push_back(name);
  one.applied = std::move(applied);
  std::erase_if(one.declined, [&](const Declined& declined) {
    return std::ranges::any_of(one.applied, [&](const std::string& name) {
      return std::string_view(name).substr(0, name.find('=')) == declined.switch_name;
    });
  });
}

DeviceTarget target_of(const Backend& backend, const RequestOptions& options) {
  DeviceTarget target = backend.properties().target;
  target.new_work = options.new_work;
  return target;
}

/// A copy of tensors of one backend on another, through the host: devices need not see each other's memory. Begun on
/// a thread where the first is current, and finished where the other is.
class ConditioningCopy {
 public:
  ConditioningCopy(const Conditioning& from, Backend& backend) {
    for (const std::vector<Conditioning::Text>& reader : from.texts) {
      std::vector<std::vector<HostTensor>>& texts = texts_.emplace_back();
      for (const Conditioning::Text& text : reader) {
        std::vector<HostTensor>& parts = texts.emplace_back();
        for (const Conditioning::Part& part : text) parts.push_back(to_host(*part, backend));
      }
    }
    for (const Conditioning::Part& part : from.references) references_.push_back(to_host(*part, backend));
  }

  [[nodiscard]] Conditioning on(Backend& backend) const {
    const std::unique_ptr<Stream> stream = backend.make_stream();
    const auto copy = [&](const HostTensor& tensor) {
      DeviceTensor part{.dtype = tensor.dtype(),
                        .shape = tensor.shape(),
                        .memory = backend.allocate(tensor.bytes().size(), MemoryCategory::kInputs)};
      backend.copy_from_host(*stream, part.memory.at(), tensor.bytes().data(), tensor.bytes().size());
      return std::make_shared<const DeviceTensor>(std::move(part));
    };
    Conditioning conditioning;
    for (const auto& reader : texts_) {
      std::vector<Conditioning::Text>& texts = conditioning.texts.emplace_back();
      for (const auto& text : reader) {
        Conditioning::Text& parts = texts.emplace_back();
        for (const HostTensor& part : text) parts.push_back(copy(part));
      }
    }
    for (const HostTensor& reference : references_) conditioning.references.push_back(copy(reference));
    stream->synchronize();
    return conditioning;
  }

 private:
  std::vector<std::vector<std::vector<HostTensor>>> texts_;
  std::vector<HostTensor> references_;
};

/// States that passes add to a loop start as zeros: they do not outlive a request.
void clear_added_states(Session& session) {
  const Graph& graph = session.program().graph;
  for (const ValueId state : graph.values_of(ValueKind::kState))
    if (const Value& value = graph.value(state); value.name != kLatents)
      session.set_state(value.name, HostTensor(value.type.dtype, value.type.shape));
}

}  // namespace

Generator::Generator(const Pipeline& pipeline, Backend& backend, WeightStore& weights, const RequestOptions& options,
                     SharedStages shared)
    : pipeline_(pipeline),
      backend_(backend),
      weights_(weights),
      options_(options),
      request_(pipeline.resolve(options)),
      offloader_(std::move(shared.offloader)),
      reader_(std::move(shared.reader)),
      decoder_(std::move(shared.decoder)) {
  if (const std::string cache = cache_that_decides(options.switches); !cache.empty() && pipeline.has_random_weights())
    fail_usage(
        "{}: what random weights compute decides nothing about a step cache; give it a schedule, as --cache-schedule "
        "10",
        cache);
  const DeviceTarget target = target_of(backend, options);
  const bool has_reader = reader_ != nullptr;
  if (has_reader)
    reader_->set_new_work(options.new_work);
  else
    reader_ =
        std::make_shared<PromptReader>(pipeline, request_.text_tokens, options.switches, target, request_.text_lengths);
  for (const TokenSize& size : request_.references) {  // references of one size share a stage
    if (std::ranges::find(encoders_, size, &SizedEncoder::size) != encoders_.end()) continue;
    if (auto stage = compile_coder("encode", pipeline.encoder(), request_, size, options.switches, target))
      encoders_.push_back({size, std::move(*stage)});
  }
  compile_loop(options);
  const TokenSize size{request_.token_rows, request_.token_columns};
  if (decoder_ != nullptr && decoder_->size != size) decoder_.reset();
  if (decoder_ == nullptr)
    if (auto stage = compile_coder("decode", pipeline.decoder(), request_, size, options.switches, target)) {
      decoder_ = std::make_shared<SizedDecoder>();
      decoder_->size = size;
      decoder_->stage = *std::move(stage);
    }
  tell_of_all(denoise_.compiled, device_stages(), options.switches);

  if (options.drops_other_weights) {
    std::vector<const Program*> used;
    for (const DeviceStage* stage : device_stages()) used.push_back(stage->compiled.program.get());
    for (int rank = 1; rank <= std::ssize(other_loops_); ++rank) {
      const Program& program = *other_loops_[static_cast<std::size_t>(rank) - 1].compiled.program;
      if (is_elsewhere(rank))
        on_rank(rank, [&] { weights.on(ranks_->backend(rank)).keep_only(program); });
      else
        used.push_back(&program);
    }
    weights.keep_only(used);
  }
  if (offloader_ == nullptr) offloader_ = std::make_shared<Offloader>(backend, weights, options.memory_limit);
  require_memory(options);
  if (!has_reader) reader_->load(offloader_);
  for (SizedEncoder& encoder : encoders_) offloader_->load(encoder.stage);
  load_loop();
  if (decoder_ == nullptr || decoder_->offloader != nullptr) return;
  decoder_->offloader = offloader_;
  offloader_->load(decoder_->stage);
}

void Generator::compile_loop(const RequestOptions& options) {
  other_loops_.clear();
  setup_.reset();
  const std::optional<std::string_view> shared = options.switches.argument("cp");
  const int count = shared ? ContextParallel::parse(*shared).ranks : 1;
  if (count > 1 && obstacle_to(Capability::kRanks, target_of(backend_, options)).empty()) compile_ranks(options, count);
  if (ranks_ != nullptr) return;
  denoise_ = {.name = std::string(kDenoiseStage),
              .compiled = compile_denoise(pipeline_, request_, options.switches, target_of(backend_, options),
                                          options.records_velocities)};
  if (const std::shared_ptr<const Program>& setup = denoise_.compiled.program->setup) {
    setup_.emplace().name = kSetupStage;
    setup_->compiled.program = setup;
    denoise_.setup = &*setup_;
  }
}

/// Compiles the loop of every rank; leaves no ranks if it cannot be shared.
void Generator::compile_ranks(const RequestOptions& options, int count) {
  if (ranks_ == nullptr) ranks_ = std::make_unique<Ranks>(backend_, count);
  std::vector<const Graph*> graphs;
  for (int rank = 0; rank < count; ++rank) {
    DeviceTarget target = ranks_->target(rank);
    target.new_work = rank == 0 || is_elsewhere(rank) ? options.new_work : NewWork::kTakeOver;
    Compiled compiled;
    on_rank(rank, [&] {
      compiled = compile_denoise(pipeline_, request_, options.switches, target, options.records_velocities, rank);
    });
    if (std::ranges::find(compiled.declined, "cp", &Declined::switch_name) != compiled.declined.end()) {
      if (rank != 0) fail("rank 0 shares the loop of {}, and rank {} cannot", pipeline_.name(), rank);
      ranks_.reset();
      return;
    }
    DeviceStage& loop = rank == 0 ? denoise_ : other_loops_.emplace_back();
    loop = {.name = std::string(kDenoiseStage), .compiled = std::move(compiled)};
    graphs.push_back(&loop.compiled.program->graph);
  }
  require_equal_collectives(graphs);
}

std::vector<DeviceStage*> Generator::loops() {
  std::vector<DeviceStage*> loops = {&denoise_};
  for (DeviceStage& loop : other_loops_) loops.push_back(&loop);
  return loops;
}

bool Generator::is_elsewhere(int rank) const { return ranks_ != nullptr && &ranks_->backend(rank) != &backend_; }

void Generator::on_rank(int rank, const std::function<void()>& body) {
  if (is_elsewhere(rank))
    ranks_->run_on(rank, body);
  else
    body();
}

Offloader& Generator::offloader_of(int rank) { return is_elsewhere(rank) ? *offloaders_.at(rank) : *offloader_; }

std::vector<Session*> Generator::other_sessions() {
  std::vector<Session*> sessions;
  for (const DeviceStage& loop : other_loops_) sessions.push_back(loop.session.get());
  return sessions;
}

void Generator::load_loop() {
  if (setup_) offloader_->load(*setup_);
  const std::vector<DeviceStage*> loops = this->loops();
  for (int rank = 0; rank < std::ssize(loops); ++rank)
    on_rank(rank, [&] {
      if (is_elsewhere(rank) && !offloaders_.contains(rank)) {
        Backend& backend = ranks_->backend(rank);
        offloaders_[rank] = std::make_unique<Offloader>(backend, weights_.on(backend), options_.memory_limit);
      }
      DeviceStage& loop = *loops[static_cast<std::size_t>(rank)];
      offloader_of(rank).load(loop);
      clear_added_states(*loop.session);
      pipeline_.set_request_inputs(*loop.session, request_);
    });
}

void Generator::run_loop(const IterationObserver& observer) {
  const std::vector<DeviceStage*> loops = this->loops();
  std::vector<DeviceStage*> here;
  for (int rank = 0; rank < std::ssize(loops); ++rank)
    if (!is_elsewhere(rank)) here.push_back(loops[static_cast<std::size_t>(rank)]);
  offloader_->begin(here);
  if (ranks_ == nullptr) return session().run(observer);
  ranks_->run([&](int rank) {
    DeviceStage& loop = *loops[static_cast<std::size_t>(rank)];
    if (is_elsewhere(rank)) offloader_of(rank).begin(loop);
    loop.session->run(rank == 0 ? observer : IterationObserver());
  });
}

/// The session of a rank is going to be replaced, or to end.
void Generator::forget_loops() noexcept {
  const std::vector<DeviceStage*> loops = this->loops();
  for (int rank = 0; rank < std::ssize(loops); ++rank) {
    const DeviceStage& loop = *loops[static_cast<std::size_t>(rank)];
    if (!is_elsewhere(rank))
      offloader_->forget(loop);
    else if (const auto found = offloaders_.find(rank); found != offloaders_.end())
      found->second->forget(loop);
  }
}

/// Compiles the loop again if the texts of these images have other lengths.
void Generator::fit_texts(std::span<const ImageRequest> images) {
  std::vector<std::int64_t> lengths = pipeline_.text_lengths(request_, images);
  if (lengths == request_.text_lengths) return;
  request_.text_lengths = std::move(lengths);
  if (setup_) offloader_->forget(*setup_);
  forget_loops();
  RequestOptions options = options_;
  options.new_work = NewWork::kTakeOver;  // the caller waits
  compile_loop(options);
  tell_of_all(denoise_.compiled, device_stages(), options.switches);
  require_memory(options);
  load_loop();
}

Generator::~Generator() {
  for (const SizedEncoder& encoder : encoders_) offloader_->forget(encoder.stage);
  if (setup_) offloader_->forget(*setup_);
  forget_loops();
}

std::vector<const DeviceStage*> Generator::device_stages() const {
  std::vector<const DeviceStage*> stages = reader_->stages();
  for (const SizedEncoder& encoder : encoders_) stages.push_back(&encoder.stage);
  if (setup_) stages.push_back(&*setup_);
  stages.push_back(&denoise_);
  if (decoder_ != nullptr) stages.push_back(&decoder_->stage);
  return stages;
}

/// Checks that all stages fit together, or otherwise each one with the memory of the others that is never unloaded.
void Generator::require_memory(const RequestOptions& options) const {
  const std::size_t used = backend_.memory_use().total - weights_.bytes() - offloader_->arena_bytes();
  const std::size_t read = static_cast<std::size_t>(request_.batch()) * reader_->reading_bytes();
  std::size_t all = used + read, lasting = used + read;
  std::multimap<std::size_t, const DeviceStage*, std::greater<>> by_need;  // the largest need is reported first
  for (const DeviceStage* stage : device_stages()) {
    const Program& program = *stage->compiled.program;
    std::size_t need = memory_need_alone(program, weights_).total(), stays = lasting_bytes(program, weights_);
    if (stage == &denoise_)
      for (const DeviceStage& loop : other_loops_) {  // they read the weights of the first
        if (is_elsewhere(1)) break;
        const MemoryNeed other = memory_need_alone(*loop.compiled.program, weights_);
        need += other.activations + other.state + other.inputs;
        stays += other.state + other.inputs;
      }
    all += need;
    lasting += stays;
    by_need.emplace(need, stage);
  }
  if (all <= offloader_->limit()) return;

  const auto compile_other = [&](const SwitchSet& switches, const RequestSize& size) {
    Request smaller = request_;
    smaller.set_images(size.images);
    smaller.token_rows = size.token_rows;
    smaller.token_columns = size.token_columns;
    return compile_denoise(pipeline_, smaller, switches, target_of(backend_, options));
  };
  for (const auto& [need, stage] : by_need) {
    const Program& program = *stage->compiled.program;
    const FittedRequest request{.model = pipeline_.name(),
                                .switches = options.switches,
                                .size = {.images = request_.images,
                                         .token_rows = request_.token_rows,
                                         .token_columns = request_.token_columns,
                                         .token_pixels = pipeline_.token_pixels()},
                                .compile = compile_other,
                                .stage = by_need.size() == 1 ? "" : stage->name,
                                .is_setup_apart = true,
                                .other_stages = lasting - lasting_bytes(program, weights_),
                                .limit = offloader_->limit(),
                                .is_limited = options.memory_limit != 0,
                                .suggests = options.suggests_what_fits && stage == &denoise_};
    require_fit(program, request, weights_, backend_);
  }
}

template <class Body>
void Generator::run_stage(std::string name, std::size_t bytes, const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  took_.push_back({.name = std::move(name), .milliseconds = milliseconds_since(start), .bytes = bytes});
}

/// Adds the latents of an image's references.
void Generator::encode_references(const ImageRequest& image, std::vector<Conditioning::Part>& made) {
  if (image.references.size() != request_.references.size())
    fail_usage("{} images are given, expected {}", image.references.size(), request_.references.size());
  const auto set_inputs = pipeline_.encoder()->set_inputs;
  for (std::size_t i = 0; i < image.references.size(); ++i) {
    DeviceStage& stage = std::ranges::find(encoders_, request_.references[i], &SizedEncoder::size)->stage;
    stage.submit(*offloader_, [&](Session& session) {
      session.set_input("pixels", image.references[i]);
      if (set_inputs) set_inputs(session, image);
    });
    made.push_back(std::make_shared<const DeviceTensor>(stage.session->device_output("latents")));
  }
}

Conditioning Generator::make_conditioning(std::span<const ImageRequest> images) {
  Conditioning conditioning;
  for (std::size_t reader = 0; reader < pipeline_.text_readers().size(); ++reader) {
    const std::vector<std::optional<std::string>> texts = texts_of(pipeline_, request_, images, reader);
    offloader_->expect(encoders_.empty() ? &first_of_loop() : &encoders_.front().stage);
    conditioning.texts.push_back(reader_->read(reader, texts, took_));
  }
  offloader_->expect(&first_of_loop());
  if (!encoders_.empty()) {
    std::size_t bytes = 0;
    for (const SizedEncoder& encoder : encoders_)
      bytes = std::max(bytes, encoder.stage.session->activation_reserved_bytes());
    run_stage("encode", bytes, [&] {
      for (const ImageRequest& image : images) encode_references(image, conditioning.references);
    });
  }
  return conditioning;
}

void Generator::prepare(std::span<const ImageRequest> images) {
  HR_CHECK_EQ(static_cast<std::int64_t>(images.size()), request_.images);
  took_.clear();
  fit_texts(images);
  const Conditioning conditioning = make_conditioning(images);
  run_stage("inputs", 0, [&] {
    const std::vector<DeviceStage*> loops = this->loops();
    if (!is_elsewhere(1)) {
      for (DeviceStage* const loop : loops) pipeline_.set_image_inputs(*loop->session, request_, images, conditioning);
      return;
    }
    const ConditioningCopy copy(conditioning, backend_);
    ranks_->run([&](int rank) {
      Session& session = *loops[static_cast<std::size_t>(rank)]->session;
      pipeline_.set_image_inputs(session, request_, images,
                                 is_elsewhere(rank) ? copy.on(ranks_->backend(rank)) : conditioning);
      session.stream().synchronize();  // it reads the copy
    });
  });
  if (!setup_) return;
  offloader_->expect(&denoise_);
  run_stage(setup_->name, setup_->session->activation_reserved_bytes(), [&] {
    offloader_->begin(*setup_);
    session().submit_setup();
    session().stream().synchronize();
  });
}

HostTensor Generator::generate(std::span<const ImageRequest> images, const IterationObserver& observer) {
  prepare(images);
  return denoise(observer);
}

HostTensor Generator::denoise(const IterationObserver& observer) {
  offloader_->expect(decoder_ != nullptr ? &decoder_->stage : nullptr);
  std::size_t bytes = 0;
  for (const DeviceStage* loop : loops()) bytes += loop->session->activation_reserved_bytes();
  run_stage(denoise_.name, bytes, [&] { run_loop(observer); });
  return session().output(kLatents);
}

bool Generator::has_step_cache() const {
  const std::span<const Output> outputs = session().program().graph.outputs();
  return std::ranges::find(outputs, kComputedSteps, &Output::name) != outputs.end();
}

std::vector<bool> Generator::computed_steps() const {
  std::vector<bool> computed;
  if (!has_step_cache()) return computed;
  const HostTensor steps = session().output(kComputedSteps);
  for (std::int64_t step = 0; step < steps.numel(); ++step) computed.push_back(steps.at(step) != 0);
  return computed;
}

const Shape& Generator::latents_shape() const {
  const Graph& graph = session().program().graph;
  return graph.type(graph.find(ValueKind::kState, kLatents)).shape;
}

HostTensor Generator::decode(const HostTensor& latents) {
  HostTensor pixels;
  if (decoder_ == nullptr) {
    run_stage("decode", 0, [&] { pixels = pipeline_.decode(latents, request_); });
    return pixels;
  }
  offloader_->expect(nullptr);
  DeviceStage& stage = decoder_->stage;
  run_stage(stage.name, stage.session->activation_reserved_bytes(), [&] {
    std::vector<HostTensor> decoded;
    for (const HostTensor& one : unstack(latents)) {
      stage.submit(*offloader_, "latents", one);
      decoded.push_back(stage.session->output("pixels"));
    }
    pixels = decoded.size() == 1 ? std::move(decoded.front()) : stack(decoded);
  });
  return pixels;
}

}  // namespace headroom
