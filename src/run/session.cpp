#include "run/session.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "kernels/parallel.hpp"
#include "run/held_weights.hpp"
#include "run/weight_store.hpp"

namespace headroom {
namespace {

MemoryCategory category_of(StorageKind kind) {
  return kind == StorageKind::kState ? MemoryCategory::kState : MemoryCategory::kInputs;
}

/// What a kernel is launched with for a step, whose operands lie where `address_of` says; `inputs` and `outputs` hold
/// the addresses.
template <class AddressOf>
LaunchArguments arguments_of(const Step& step, Stream& stream, std::vector<const void*>& inputs,
                             std::vector<void*>& outputs, void* scratch, const AddressOf& address_of) {
  std::ranges::transform(step.input_places, inputs.begin(), address_of);
  std::ranges::transform(step.output_places, outputs.begin(), address_of);
  return {.stream = stream,
          .inputs = std::span(inputs).first(step.input_places.size()),
          .outputs = std::span(outputs).first(step.output_places.size()),
          .scratch = scratch};
}

}  // namespace

Session::Session(std::shared_ptr<const Program> program, WeightStore& weights, Backend& backend,
                 std::shared_ptr<Stream> stream)
    : Session(std::move(program), backend, std::move(stream)) {
  weights_ = weights.hold(*program_, completion_);
  for (std::size_t i = 0; i < program_->weights.size(); ++i)
    bases_[static_cast<std::size_t>(program_->weights[i].storage)] = weights_->weights()[i]->data();
}

Session::Session(std::shared_ptr<const Program> program, Backend& backend, std::shared_ptr<Stream> stream)
    : program_(std::move(program)),
      backend_(backend),
      stream_(stream ? std::move(stream) : backend.make_stream()),
      completion_(backend.make_event()),
      allocator_(backend, MemoryCategory::kActivations),
      buffers_(program_->storages.size()),
      blocks_(program_->storages.size()),
      bases_(program_->storages.size(), nullptr),
      is_set_(program_->storages.size(), false) {
  std::size_t most_inputs = 0, most_outputs = 0;
  for (const Step& step : program_->steps) {
    most_inputs = std::max(most_inputs, step.input_places.size());
    most_outputs = std::max(most_outputs, step.output_places.size());
  }
  launchers_.resize(program_->tiled.empty() ? 1 : static_cast<std::size_t>(program_->target.threads));
  for (Launcher& launcher : launchers_) {
    launcher.inputs.resize(most_inputs);
    launcher.outputs.resize(most_outputs);
  }
  allocate_fixed();
  if (!program_->has_arena) schedule_ = schedule_buffers(*program_);
  if (program_->lanes > 1) make_lanes();
}

Session::~Session() = default;

void Session::allocate_fixed() {
  if (program_->has_arena && program_->arena_bytes > 0)
    arena_ = backend_.allocate(program_->arena_bytes, MemoryCategory::kActivations);
  for (std::size_t s = 0; s < bases_.size(); ++s) {
    const Storage& storage = program_->storages[s];
    if (is_activation(storage)) {
      if (program_->has_arena) bases_[s] = arena_.data() + storage.arena_offset;
    } else if (storage.kind != StorageKind::kWeight && storage.kind != StorageKind::kPart) {
      buffers_[s] = backend_.allocate(std::max<std::size_t>(storage.bytes, 1), category_of(storage.kind));
      bases_[s] = buffers_[s].data();
    }
  }
}

void Session::make_lanes() {
  for (int lane = 1; lane < program_->lanes; ++lane)
    lanes_.push_back({.stream = backend_.make_stream(), .joined = backend_.make_event()});
  forked_ = backend_.make_event();
  done_.resize(program_->steps.size());
  for (const Step& step : program_->steps)
    for (const int before : step.waits)
      if (std::unique_ptr<Event>& event = done_[static_cast<std::size_t>(before)]; !event)
        event = backend_.make_event();
}

ValueId Session::require(ValueKind kind, std::string_view name) const {
  const ValueId value = program_->graph.find(kind, name);
  const char* what = kind == ValueKind::kState ? "state" : "input";
  if (value == kNoValue) fail("{} has no {} called '{}'", program_->graph.name(), what, name);
  return value;
}

void Session::write(ValueId value, std::string_view what, const HostTensor& tensor) {
  const TensorType& type = program_->graph.type(value);
  if (tensor.dtype() != type.dtype || !(tensor.shape() == type.shape))
    fail("{} '{}' is {}{}, expected {}{}", what, program_->graph.value(value).name, tensor.dtype(), tensor.shape(),
         type.dtype, type.shape);
  const int storage = program_->places[index_of(value)].storage;
  if (storage < 0) return;  // declared, and read by nothing
  backend_.copy_from_host(*stream_, bases_[static_cast<std::size_t>(storage)], tensor.bytes().data(),
                          tensor.bytes().size());
  is_set_[static_cast<std::size_t>(storage)] = true;
}

void Session::set_input(std::string_view name, const HostTensor& tensor) {
  write(require(ValueKind::kInput, name), "input", tensor);
}
void Session::set_state(std::string_view name, const HostTensor& tensor) {
  write(require(ValueKind::kState, name), "state", tensor);
}

/// Where the input lies, which counts as given from now on; null where nothing reads it.
std::byte* Session::set_storage(std::string_view name) {
  const int storage = program_->places[index_of(require(ValueKind::kInput, name))].storage;
  if (storage < 0) return nullptr;
  is_set_[static_cast<std::size_t>(storage)] = true;
  return bases_[static_cast<std::size_t>(storage)];
}

void Session::set_input_bytes(std::string_view name, std::span<const std::byte> bytes) {
  HR_CHECK_EQ(bytes.size(), program_->graph.type(require(ValueKind::kInput, name)).bytes());
  if (std::byte* const to = set_storage(name)) backend_.copy_from_host(*stream_, to, bytes.data(), bytes.size());
}

void Session::set_input_normal(std::string_view name, const NormalStream& values) {
  const TensorType& type = program_->graph.type(require(ValueKind::kInput, name));
  if (std::byte* const to = set_storage(name))
    backend_.fill_normal(*stream_, to, type.dtype, static_cast<std::uint64_t>(type.shape.numel()), values);
}

void Session::run(const IterationObserver& observer) {
  submit(observer);
  stream_->synchronize();
}

void Session::require_given() const {
  for (const ValueKind kind : {ValueKind::kInput, ValueKind::kState})
    for (std::size_t v = 0; v < program_->graph.value_count(); ++v) {
      const int storage = program_->places[v].storage;
      if (program_->graph.value(ValueId(static_cast<int>(v))).kind == kind && storage >= 0 &&
          !is_set_[static_cast<std::size_t>(storage)])
        fail("{} needs '{}', which has not been given", program_->graph.name(),
             program_->graph.value(ValueId(static_cast<int>(v))).name);
    }
}

void Session::submit(const IterationObserver& observer) {
  require_given();
  if (weights_) weights_->wait_for_changes(*stream_);
  outside_loops_ms_ = 0;
  host_reads_ = 0;
  if (program_->root.children.empty()) run_outside_loops(program_->root, observer);
  for (const Segment& child : program_->root.children) {
    if (child.kind == SegmentKind::kLoop)
      run_loop(child, observer);
    else
      run_outside_loops(child, observer);
  }
  completion_->record(*stream_);
}

/// Waits for what it timed, so that a loop's first iteration is not charged with it.
void Session::run_outside_loops(const Segment& segment, const IterationObserver& observer) {
  const auto start = std::chrono::steady_clock::now();
  run_segment(segment, observer);
  if (!observer) return;
  stream_->synchronize();
  outside_loops_ms_ += milliseconds_since(start);
}

void Session::run_segment(const Segment& segment, const IterationObserver& observer) {
  if (segment.kind == SegmentKind::kLoop) return run_loop(segment, observer);
  if (segment.kind == SegmentKind::kIf) return run_if(segment, observer);
  if (segment.children.empty()) return run_steps(segment.first, segment.last);
  for (const Segment& child : segment.children) run_segment(child, observer);
}

void Session::run_loop(const Segment& segment, const IterationObserver& observer) {
  const Place& counter = segment.counter;
  for (std::int32_t i = 0; i < segment.trip_count; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (counter.storage >= 0) backend_.copy_from_host(*stream_, address(counter), &i, sizeof i);
    if (segment.children.empty())
      run_steps(segment.first, segment.last);
    else
      for (const Segment& child : segment.children) run_segment(child, observer);
    if (!observer) continue;
    stream_->synchronize();
    observer(i, milliseconds_since(start));
  }
  give_after(segment);
}

/// The host reads the predicate, for which it waits for all that was submitted.
void Session::run_if(const Segment& segment, const IterationObserver& observer) {
  std::uint8_t predicate = 0;
  backend_.copy_to_host(*stream_, &predicate, address(segment.predicate), sizeof predicate);
  stream_->synchronize();
  ++host_reads_;
  run_segment(segment.children[predicate != 0 ? 0 : 1], observer);
  give_after(segment);
}

void Session::give_after(const Segment& segment) {
  const auto found = schedule_.give_after_segment.find(&segment);
  if (found != schedule_.give_after_segment.end())
    for (const int storage : found->second) give(storage);
}

void Session::run_steps(int first, int last) {
  if (first == last) return;
  if (!program_->has_graph || launch_observer_) return submit_steps(first, last);
  std::unique_ptr<Recording>& recording = recordings_[first];
  if (!recording) {
    allocator_.keep_segments();
    recording = backend_.record(*stream_, [&] { submit_steps(first, last); });
  }
  recording->replay(*stream_);
}

void Session::submit_steps(int first, int last) {
  const bool spread = !lanes_.empty() && !launch_observer_;
  if (spread) {
    for (Lane& lane : lanes_) lane.in_use = false;  // an exception may have left it so
    forked_->record(*stream_);
  }
  for (int i = first; i < last; ++i) {
    const auto index = static_cast<std::size_t>(i);
    if (const TiledRun* const run = tiled_run_at(*program_, i)) {
      launch_tiled(*run);
      i = run->last - 1;
      continue;
    }
    if (!program_->has_arena)
      for (const int storage : schedule_.take_before[index]) take(storage);
    if (launch_observer_)
      launch_observed(i);
    else if (spread)
      launch_on_lane(i);
    else
      launch(program_->steps[index], *stream_);
    if (!program_->has_arena)
      for (const int storage : schedule_.give_after[index]) give(storage);
  }
  if (spread) join_lanes();
}

void Session::launch_on_lane(int index) {
  const Step& step = program_->steps[static_cast<std::size_t>(index)];
  Stream* stream = stream_.get();
  if (step.lane > 0) {
    Lane& lane = lanes_[static_cast<std::size_t>(step.lane) - 1];
    stream = lane.stream.get();
    if (!std::exchange(lane.in_use, true)) stream->wait(*forked_);
  }
  for (const int before : step.waits) stream->wait(*done_[static_cast<std::size_t>(before)]);
  launch(step, *stream);
  if (const std::unique_ptr<Event>& event = done_[static_cast<std::size_t>(index)]) event->record(*stream);
}

void Session::join_lanes() {
  for (Lane& lane : lanes_) {
    if (!std::exchange(lane.in_use, false)) continue;
    lane.joined->record(*lane.stream);
    stream_->wait(*lane.joined);
  }
}

void Session::launch(const Step& step, Stream& stream) {
  Launcher& launcher = launchers_.front();
  const LaunchArguments arguments =
      arguments_of(step, stream, launcher.inputs, launcher.outputs,
                   step.scratch < 0 ? nullptr : bases_[static_cast<std::size_t>(step.scratch)],
                   [&](const Place& place) { return address(place); });
  if (step.prepared == nullptr) {  // a copy
    backend_.copy_on_device(stream, arguments.outputs[0], arguments.inputs[0],
                            program_->graph.type(step.outputs[0]).bytes());
    return;
  }
  backend_.begin_range(step.label.c_str());
  step.prepared->launch(arguments);
  backend_.end_range();
}

void Session::launch_observed(int index) {
  const auto start = std::chrono::steady_clock::now();
  launch(program_->steps[static_cast<std::size_t>(index)], *stream_);
  stream_->synchronize();
  launch_observer_(index, {.start = start, .milliseconds = milliseconds_since(start)});
}

void Session::launch_tiled(const TiledRun& run) {
  const auto start = std::chrono::steady_clock::now();
  if (launch_observer_)
    for (Launcher& launcher : launchers_) launcher.step_ms.assign(static_cast<std::size_t>(run.last - run.first), 0.0);
  parallel_for(program_->target.threads, run.parts, 1, [&](std::int64_t begin, std::int64_t end, int thread) {
    for (std::int64_t part = begin; part < end; ++part) launch_part(run, part, thread);
  });
  if (!launch_observer_) return;
  const double wall = milliseconds_since(start);
  std::vector<double> step_ms(static_cast<std::size_t>(run.last - run.first), 0.0);
  for (const Launcher& launcher : launchers_)
    for (std::size_t i = 0; i < step_ms.size(); ++i) step_ms[i] += launcher.step_ms[i];
  const double all = std::reduce(step_ms.begin(), step_ms.end());
  double before = 0;
  for (std::size_t i = 0; i < step_ms.size(); ++i) {
    const double milliseconds = all > 0 ? wall * step_ms[i] / all : 0;  // a coarse clock may have seen none pass
    const std::chrono::duration<double, std::milli> offset(before);
    launch_observer_(run.first + static_cast<int>(i),
                     {.start = start + std::chrono::duration_cast<std::chrono::steady_clock::duration>(offset),
                      .milliseconds = milliseconds});
    before += milliseconds;
  }
}

void Session::launch_part(const TiledRun& run, std::int64_t part, int thread) {
  Launcher& launcher = launchers_[static_cast<std::size_t>(thread)];
  for (int i = run.first; i < run.last; ++i) {
    const Step& step = program_->steps[static_cast<std::size_t>(i)];
    const auto start = launch_observer_ ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
    const auto index = static_cast<std::size_t>(i - run.first);
    run.prepared[index][static_cast<std::size_t>(thread)]->launch(
        arguments_of(step, *stream_, launcher.inputs, launcher.outputs,
                     step.scratch < 0 ? nullptr : part_base(step.scratch, run, thread),
                     [&](const Place& place) { return part_address(place, run, part, thread); }));
    if (launch_observer_) launcher.step_ms[index] += milliseconds_since(start);
  }
}

void Session::take(int storage) {
  const auto s = static_cast<std::size_t>(storage);
  if (bases_[s] != nullptr) return;  // an output kept from the run before, or made in an earlier iteration
  blocks_[s] = allocator_.allocate(program_->storages[s].bytes);
  bases_[s] = blocks_[s].data;
}

void Session::give(int storage) {
  const auto s = static_cast<std::size_t>(storage);
  if (bases_[s] == nullptr) return;  // of a branch that did not run
  allocator_.free(blocks_[s]);
  bases_[s] = nullptr;
}

std::byte* Session::address(const Place& place) const {
  std::byte* base = bases_[static_cast<std::size_t>(place.storage)];
  HR_CHECK(base != nullptr);
  return base + place.offset_bytes;
}

/// Where a storage of one part begins while `thread` runs that part.
std::byte* Session::part_base(int storage, const TiledRun& run, int thread) const {
  return bases_[static_cast<std::size_t>(run.memory)] + static_cast<std::size_t>(thread) * run.thread_bytes +
         program_->storages[static_cast<std::size_t>(storage)].arena_offset;
}

std::byte* Session::part_address(const Place& place, const TiledRun& run, std::int64_t part, int thread) const {
  if (program_->storages[static_cast<std::size_t>(place.storage)].kind == StorageKind::kPart)
    return part_base(place.storage, run, thread) + place.offset_bytes;
  return address(place) + static_cast<std::size_t>(part) * place.bytes_between_parts;
}

std::size_t Session::index_of_output(std::string_view name) const {
  const std::span<const Output> outputs = program_->graph.outputs();
  const auto found = std::ranges::find(outputs, name, &Output::name);
  if (found == outputs.end()) fail("{} has no output called '{}'", program_->graph.name(), name);
  return static_cast<std::size_t>(found - outputs.begin());
}

const std::byte* Session::output_address(std::string_view name) const {
  return address(program_->outputs[index_of_output(name)]);
}

HostTensor Session::read(const TensorType& type, const Place& place) const {
  HostTensor tensor(type.dtype, type.shape);
  backend_.copy_to_host(*stream_, tensor.bytes().data(), address(place), tensor.bytes().size());
  stream_->synchronize();
  return tensor;
}

HostTensor Session::output(std::string_view name) const {
  const std::size_t output = index_of_output(name);
  return read(program_->graph.type(program_->graph.outputs()[output].value), program_->outputs[output]);
}

HostTensor Session::state(std::string_view name) const {
  const ValueId state = require(ValueKind::kState, name);
  return read(program_->graph.type(state), program_->places[index_of(state)]);
}

void Session::release_inputs() {
  for (std::size_t s = 0; s < buffers_.size(); ++s) {
    if (program_->storages[s].kind != StorageKind::kInput) continue;
    buffers_[s] = Buffer();
    bases_[s] = nullptr;
    is_set_[s] = false;
  }
}

std::size_t Session::activation_peak_bytes() const {
  return program_->has_arena ? program_->arena_bytes : allocator_.peak_used_bytes();
}
std::size_t Session::activation_reserved_bytes() const {
  return program_->has_arena ? program_->arena_bytes : allocator_.reserved_bytes();
}

}  // namespace headroom
