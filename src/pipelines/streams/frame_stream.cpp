#include "pipelines/streams/frame_stream.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <utility>

#include "base/error.hpp"
#include "base/tensors/random.hpp"
#include "run/fit.hpp"

namespace headroom {
namespace {

constexpr int kWarmUpRuns = 3;            // one that records, one that replays the recording, and one more
constexpr std::size_t kMostStages = 4;    // graphs that are kept for later requests
constexpr std::size_t kPageBytes = 4096;  // parts of a slot begin at multiples of this

std::size_t rounded_up(std::size_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

bool has_output(const Session& session, std::string_view name) {
  const std::span<const Output> outputs = session.program().graph.outputs();
  return std::ranges::find(outputs, name, &Output::name) != outputs.end();
}

}  // namespace

FrameStream::FrameStream(const StreamModel& model, Backend& backend, WeightStore& weights, const StreamOptions& options)
    : model_(model),
      backend_(backend),
      weights_(weights),
      options_(options),
      switches_(options.switches),
      locking_(dynamic_cast<PageLockingBackend*>(&backend)),
      offloader_(std::make_shared<Offloader>(backend, weights, 0)),
      stream_(backend.make_stream()) {
  for (const std::string& name : options.switches.names()) {
    const std::string bare = name.substr(0, name.find('='));
    const std::string obstacle = model.obstacle_to(bare);
    if (obstacle.empty()) continue;
    declined_.push_back({bare, obstacle});
    switches_ = switches_.without(bare);
  }
  options_.switches = switches_;
  request_ = model.resolve(options_);
  options_.steps = request_.steps;
  options_.strength = request_.strength;
  options_.guidance_scale = request_.guidance_scale;
  if (request_.size.height > 16'384 || request_.size.width > 16'384)
    fail_usage("a frame of {} x {} pixels is too large, expected up to 16384 along a side", request_.size.width,
               request_.size.height);
  frame_bytes_ = static_cast<std::size_t>(request_.size.height * request_.size.width * 3);
  if (model.pipeline() != nullptr && !model.pipeline()->text_readers().empty()) {
    reader_.emplace(*model.pipeline(), request_.text_tokens, switches_, backend.properties().target);
    reader_->load(offloader_);
  }
  frame_ = &stage_of(request_);
  set_all(*frame_, request_);
}

FrameStream::~FrameStream() { synchronize(); }

void FrameStream::synchronize() noexcept {
  try {
    stream_->synchronize();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): a lost device has no work left
  }
}

DeviceStage& FrameStream::stage_of(const StreamRequest& request) {
  const std::string structure = model_.structure(request);
  const auto touch = [&] {
    std::erase(used_, structure);
    used_.push_back(structure);
  };
  if (const auto found = stages_.find(structure); found != stages_.end()) {
    touch();
    return *found->second;
  }
  auto stage = std::make_unique<DeviceStage>();
  stage->name = "frame";
  DeviceTarget target = backend_.properties().target;
  target.new_work = plans_ == 0 ? NewWork::kMeasure : options_.new_work;
  const auto compile_frame = [&](const SwitchSet& switches) {
    return compile(model_.build_frame(request), switches, target,
                   {.steps_applied = true,
                    .stream_applied = true,
                    .baseline = model_.denoiser().baseline,
                    .outputs_apart = true,
                    .fresh_inputs = std::vector<std::string>{kFramePixels}});
  };
  stage->compiled = compile_frame(switches_);
  stage->compiled.declined.insert(stage->compiled.declined.end(), declined_.begin(), declined_.end());
  require_fit(*stage->compiled.program,
              {.model = model_.denoiser().name,
               .switches = switches_,
               .size = {},
               .compile = [&](const SwitchSet& other, const RequestSize&) { return compile_frame(other); },
               .stage = "frame"},
              weights_, backend_);
  stage->session = std::make_unique<Session>(stage->compiled.program, weights_, backend_, stream_);
  if (locking_ != nullptr) bind_on_device(*stage->session);
  ++plans_;
  touch();
  if (used_.size() > kMostStages) {
    stream_->synchronize();
    stages_.erase(used_.front());
    used_.erase(used_.begin());
  }
  return *stages_.emplace(structure, std::move(stage)).first->second;
}

/// Binds frames to memory that all graphs share, on a device with separate memory.
void FrameStream::bind_on_device(Session& frame) {
  const auto memory_of = [&](Buffer& buffer, std::size_t bytes) {
    if (buffer.bytes() == 0) buffer = backend_.allocate(bytes, MemoryCategory::kInputs);
    return DeviceMemory{.at = buffer.at(), .bytes = bytes};
  };
  frame.bind_input(kFramePixels, memory_of(device_in_, frame_bytes_));
  frame.bind_output(kShownPixels, memory_of(device_out_, frame_bytes_));
  if (has_output(frame, kIsRepeated)) frame.bind_output(kIsRepeated, memory_of(device_repeated_, 1));
}

void FrameStream::set_texts(Session& session, const StreamRequest& request) {
  if (model_.pipeline() == nullptr) return;
  const Graph& graph = session.program().graph;
  std::vector<StageRun> took;
  const std::span<const TextReader> readers = model_.pipeline()->text_readers();
  for (std::size_t reader = 0; reader < readers.size(); ++reader)
    for (const bool is_negative : {false, true}) {
      const std::string prefix = is_negative ? kNegative : "";
      if (graph.find(ValueKind::kInput, prefix + readers[reader].readings.front().input) == kNoValue) continue;
      const std::array<std::optional<std::string>, 1> text = {is_negative ? request.negative_prompt : request.prompt};
      const Conditioning::Text made = reader_->read(reader, text, took).front();
      for (std::size_t part = 0; part < made.size(); ++part)
        session.set_input_part(prefix + readers[reader].readings[part].input, 0, *made[part]);
    }
}

void FrameStream::set_all(DeviceStage& stage, const StreamRequest& request) {
  model_.set_inputs(*stage.session, request);
  set_texts(*stage.session, request);
}

std::unique_ptr<FrameStream::Slot> FrameStream::make_slot() {
  auto slot = std::make_unique<Slot>();
  const std::size_t part = rounded_up(frame_bytes_), all = 2 * part + kPageBytes;
  std::uint8_t* memory = nullptr;
  if (locking_ != nullptr) {
    slot->locked_ = locking_->lock_pages(all);
    memory = reinterpret_cast<std::uint8_t*>(slot->locked_->bytes().data());
  } else {
    slot->device_memory_ = backend_.allocate(all, MemoryCategory::kInputs);
    memory = slot->device_memory_.at().address<std::uint8_t>();
  }
  std::memset(memory, 0, all);
  slot->in_ = {memory, frame_bytes_};
  slot->out_ = {memory + part, frame_bytes_};
  slot->repeated_ = memory + 2 * part;
  slot->begun_ = backend_.make_event();
  slot->done_ = backend_.make_event();
  return slot;
}

void FrameStream::warm_up(Slot& slot) {
  // Not zeros, which run faster than real data.
  std::vector<float> noise(slot.in().size());
  fill_uniform(noise, 0, 0);
  std::ranges::transform(noise, slot.in().begin(), [](float x) { return static_cast<std::uint8_t>(255 * x); });
  begin(slot.in());
  for (int run = 0; run < kWarmUpRuns; ++run) {
    submit(slot);
    wait(slot);
  }
  begin(slot.in());
}

void FrameStream::begin(std::span<const std::uint8_t> first) {
  HR_CHECK_EQ(first.size(), frame_bytes_);
  HostTensor pixels(DType::kU8, {request_.size.height, request_.size.width, 3});
  std::memcpy(pixels.bytes().data(), first.data(), first.size());
  model_.start(session(), request_, pixels);
}

void FrameStream::submit(Slot& slot) {
  Session& frame = session();
  slot.begun_->record(*stream_);
  const bool is_filtered = has_output(frame, kIsRepeated);
  if (locking_ == nullptr) {
    const auto place = [](std::uint8_t* at, std::size_t bytes) { return DeviceMemory{.at = {at, 0}, .bytes = bytes}; };
    frame.bind_input(kFramePixels, place(slot.in_.data(), frame_bytes_));
    frame.bind_output(kShownPixels, place(slot.out_.data(), frame_bytes_));
    if (is_filtered) frame.bind_output(kIsRepeated, place(slot.repeated_, 1));
    frame.submit();
  } else {
    locking_->copy_from_page_locked(*stream_, device_in_.at(), slot.in_.data(), frame_bytes_);
    frame.submit();
    backend_.copy_to_host(*stream_, slot.out_.data(), device_out_.at(), frame_bytes_);
    if (is_filtered) backend_.copy_to_host(*stream_, slot.repeated_, device_repeated_.at(), 1);
  }
  slot.done_->record(*stream_);
}

void FrameStream::wait(Slot& slot) { static_cast<void>(slot.done_->milliseconds_since(*slot.begun_)); }

void FrameStream::carry_states(Session& from, Session& to) const {
  const Graph& after = to.program().graph;
  const Graph& before = from.program().graph;
  for (const ValueId state : after.values_of(ValueKind::kState)) {
    const std::string& name = after.value(state).name;
    const ValueId same = before.find(ValueKind::kState, name);
    if (same != kNoValue && before.type(same) == after.type(state)) to.set_state(name, from.state(name));
  }
}

void FrameStream::change(const StreamOptions& options) {
  StreamOptions wanted = options;
  wanted.switches = switches_.without("steps");
  wanted.size = options_.size;
  wanted.new_work = options_.new_work;
  const StreamRequest request = model_.resolve(wanted);
  if (request_.is_batched && request.steps != request_.steps)
    fail_usage("a batch of frames in {} steps is in progress, so there cannot be {}", request_.steps, request.steps);
  DeviceStage& stage = stage_of(request);
  set_all(stage, request);
  if (&stage != frame_) {
    const HostTensor black(DType::kU8, {request.size.height, request.size.width, 3});
    model_.start(*stage.session, request, black);
    carry_states(session(), *stage.session);
    frame_ = &stage;
  }
  options_ = wanted;
  request_ = request;
}

}  // namespace headroom
