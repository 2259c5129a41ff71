#include "run/session/executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "backends/communicator.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "ir/op_definition.hpp"

namespace headroom {
namespace {

/// Steps that copy to an output with its own memory.
std::vector<int> find_output_copies(const Program& program) {
  std::vector<int> copies;
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    if (step.prepared != nullptr) continue;
    const auto storage = static_cast<std::size_t>(step.output_places[0].storage);
    if (program.storages[storage].kind == StorageKind::kOutput) copies.push_back(static_cast<int>(i));
  }
  return copies;
}

/// Ranks replay together: a device that is a replay ahead of another could fill its queue.
void meet_other_ranks(const Program& program) {
  const auto is_collective = [](const Step& step) { return definition_of(step.op).is_collective; };
  if (program.target.communicator != nullptr && std::ranges::any_of(program.steps, is_collective))
    program.target.communicator->meet();
}

/// The number of regions around the innermost steps.
std::size_t depth_of(const Segment& segment) {
  std::size_t most = 0;
  for (const Segment& child : segment.children) most = std::max(most, depth_of(child));
  return most + (segment.kind == SegmentKind::kStraight ? 0 : 1);
}

}  // namespace

Executor::Executor(const Program& program, Backend& backend, Stream& stream, SessionMemory& memory)
    : program_(program),
      backend_(backend),
      stream_(stream),
      memory_(memory),
      launcher_(program, backend, memory),
      output_copies_(find_output_copies(program)) {
  if (!program.has_arena) schedule_ = schedule_buffers(program);
  if (program.lanes > 1) make_events();
  lanes_.push_back(make_lanes(nullptr));
  note_binding();
}

/// On the session's stream, unless `own` is given.
Executor::Lanes Executor::make_lanes(std::unique_ptr<Stream> own) {
  Lanes lanes{.first = own ? own.get() : &stream_, .own = std::move(own), .others = {}};
  for (int lane = 1; lane < program_.lanes; ++lane)
    lanes.others.push_back({.stream = backend_.make_stream(), .joined = backend_.make_event()});
  return lanes;
}

void Executor::make_events() {
  forked_ = backend_.make_event();
  done_.resize(program_.steps.size());
  for (const Step& step : program_.steps)
    for (const int before : step.waits)
      if (std::unique_ptr<Event>& event = done_[static_cast<std::size_t>(before)]; !event)
        event = backend_.make_event();
}

void Executor::note_binding() {
  if (program_.has_graph) recordings_.choose(memory_.bindable_memory());
}

void Executor::run(const IterationObserver& observer) {
  outside_loops_ms_ = 0;
  host_reads_ = 0;
  replays_ = 0;
  copied_bytes_ = 0;
  const auto is_loop = [](const Segment& child) { return child.kind == SegmentKind::kLoop; };
  if (observer && std::ranges::none_of(program_.root.children, is_loop)) return run_as_one_iteration(observer);
  if (RegionRecording* const recording = whole_recording()) return replay_whole(*recording, observer);
  if (program_.root.children.empty()) run_outside_loops(program_.root, observer);
  for (const Segment& child : program_.root.children) {
    if (child.kind == SegmentKind::kLoop)
      run_loop(child, observer);
    else
      run_outside_loops(child, observer);
  }
}

/// For a program without loops.
void Executor::run_as_one_iteration(const IterationObserver& observer) {
  stream_.synchronize();  // exclude earlier work from this run
  const auto start = std::chrono::steady_clock::now();
  run({});
  stream_.synchronize();
  observer(0, milliseconds_since(start));
}

/// Waits for the timed work, so that it is not counted in a loop's first iteration.
void Executor::run_outside_loops(const Segment& segment, const IterationObserver& observer) {
  const auto start = std::chrono::steady_clock::now();
  run_segment(segment);
  if (!observer) return;
  stream_.synchronize();
  outside_loops_ms_ += milliseconds_since(start);
}

void Executor::run_segment(const Segment& segment) {
  if (segment.kind == SegmentKind::kLoop) return run_loop(segment, {});
  if (segment.kind == SegmentKind::kIf) return run_if(segment);
  if (segment.children.empty()) return run_steps(segment.first, segment.last);
  for (const Segment& child : segment.children) run_segment(child);
}

void Executor::run_loop(const Segment& segment, const IterationObserver& observer) {
  const Place& counter = segment.counter;
  for (std::int32_t i = 0; i < segment.trip_count; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (counter.storage >= 0) backend_.copy_from_host(stream_, memory_.at(counter), &i, sizeof i);
    if (segment.children.empty())
      run_steps(segment.first, segment.last);
    else
      for (const Segment& child : segment.children) run_segment(child);
    if (!observer) continue;
    stream_.synchronize();
    observer(i, milliseconds_since(start));
  }
  give_after(segment);
}

/// The host reads the predicate, and waits for all submitted work to do so.
void Executor::run_if(const Segment& segment) {
  std::uint8_t predicate = 0;
  backend_.copy_to_host(stream_, &predicate, memory_.at(segment.predicate), sizeof predicate);
  stream_.synchronize();
  ++host_reads_;
  run_segment(segment.children[predicate != 0 ? 0 : 1]);
  give_after(segment);
}

void Executor::give_after(const Segment& segment) {
  const auto found = schedule_.give_after_segment.find(&segment);
  if (found != schedule_.give_after_segment.end())
    for (const int storage : found->second) memory_.give(storage);
}

void Executor::run_steps(int first, int last) {
  if (first == last) return;
  copied_bytes_ += bytes_copied_by(first, last);
  if (!program_.has_graph || launcher_.is_observed()) return submit_steps(first, last, lanes_.front());
  Recording* recording = recordings_.find(first);
  if (recording == nullptr) {
    memory_.keep_segments();
    recording = &recordings_.add(first, backend_.record(stream_, [&] { submit_steps(first, last, lanes_.front()); }));
  }
  meet_other_ranks(program_);
  recording->replay(stream_);
  ++replays_;
}

std::size_t Executor::bytes_copied_by(int first, int last) const {
  std::size_t bytes = 0;
  for (const int copy : output_copies_) {
    const Step& step = program_.steps[static_cast<std::size_t>(copy)];
    if (first <= copy && copy < last && memory_.is_bound(step.output_places[0].storage))
      bytes += program_.graph.type(step.outputs[0]).bytes();
  }
  return bytes;
}

void Executor::submit_steps(int first, int last, Lanes& lanes) {
  const bool spread = !lanes.others.empty() && !launcher_.is_observed();
  if (spread) {
    for (Lane& lane : lanes.others) lane.in_use = false;  // an exception may have left it set
    forked_->record(*lanes.first);
  }
  for (int i = first; i < last; ++i) {
    if (const TiledRun* const run = tiled_run_at(program_, i)) {
      launcher_.launch_tiled(*run, *lanes.first);
      i = run->last - 1;
      continue;
    }
    submit_step(i, lanes, spread);
  }
  if (spread) join(lanes);
}

void Executor::submit_step(int index, Lanes& lanes, bool spread) {
  const auto i = static_cast<std::size_t>(index);
  if (!program_.has_arena)
    for (const int storage : schedule_.take_before[i]) memory_.take(storage);
  if (launcher_.is_observed())
    launcher_.launch_observed(index, *lanes.first);
  else if (spread)
    launch_on_lane(index, lanes);
  else
    launcher_.launch(program_.steps[i], *lanes.first);
  if (!program_.has_arena)
    for (const int storage : schedule_.give_after[i]) memory_.give(storage);
}

void Executor::launch_on_lane(int index, Lanes& lanes) {
  const Step& step = program_.steps[static_cast<std::size_t>(index)];
  Stream* stream = lanes.first;
  if (step.lane > 0) {
    Lane& lane = lanes.others[static_cast<std::size_t>(step.lane) - 1];
    stream = lane.stream.get();
    if (!std::exchange(lane.in_use, true)) stream->wait(*forked_);
  }
  for (const int before : step.waits) stream->wait(*done_[static_cast<std::size_t>(before)]);
  launcher_.launch(step, *stream);
  if (const std::unique_ptr<Event>& event = done_[static_cast<std::size_t>(index)]) event->record(*stream);
}

void Executor::join(Lanes& lanes) {
  for (Lane& lane : lanes.others) {
    if (!std::exchange(lane.in_use, false)) continue;
    lane.joined->record(*lane.stream);
    lanes.first->wait(*lane.joined);
  }
}

/// The recording of the whole program, made if necessary; null if the host drives the control flow.
RegionRecording* Executor::whole_recording() {
  if (!program_.has_graph || records_by_step_ || launcher_.is_observed() || obstacle_) return nullptr;
  const std::size_t depth = depth_of(program_.root);
  auto* const device = dynamic_cast<RegionBackend*>(&backend_);
  if (depth == 0 || device == nullptr) return nullptr;
  if (RegionRecording* const known = recordings_.whole()) return known;
  memory_.keep_segments();
  while (lanes_.size() <= depth) lanes_.push_back(make_lanes(backend_.make_stream()));
  try {
    return &recordings_.add_whole(device->record_regions(
        stream_, [this](RegionRecorder& recorder) { record_segment(program_.root, recorder, 0); }));
  } catch (const Error& error) {
    obstacle_ = find_obstacle(*device, program_.root, /*in_region=*/false);
    if (!obstacle_) obstacle_ = ReplayObstacle{.reason = error.what()};
    return nullptr;
  }
}

void Executor::replay_whole(RegionRecording& recording, const IterationObserver& observer) {
  copied_bytes_ = most_bytes_copied_by(program_.root);
  ++replays_;
  meet_other_ranks(program_);
  if (!observer) return recording.replay(stream_);
  stream_.synchronize();  // exclude earlier work from this run
  const auto start = std::chrono::steady_clock::now();
  double in_loops_ms = 0;
  recording.replay_observed(stream_, [&](std::int64_t iteration, double milliseconds) {
    in_loops_ms += milliseconds;
    observer(iteration, milliseconds);
  });
  outside_loops_ms_ = std::max(0.0, milliseconds_since(start) - in_loops_ms);
}

void Executor::record_segment(const Segment& segment, RegionRecorder& recorder, std::size_t depth) {
  Lanes& lanes = lanes_[depth];
  if (segment.kind == SegmentKind::kIf) {
    const auto record = [&](const Segment& branch) -> std::function<void()> {
      if (branch.first == branch.last) return nullptr;
      return [this, &branch, &recorder, depth] { record_segment(branch, recorder, depth + 1); };
    };
    return recorder.branch(*lanes.first, memory_.at(segment.predicate), *lanes_[depth + 1].first,
                           record(segment.children[0]), record(segment.children[1]));
  }
  const std::size_t inner = segment.kind == SegmentKind::kLoop ? depth + 1 : depth;
  const auto record_inside = [&] {
    if (segment.children.empty()) submit_steps(segment.first, segment.last, lanes_[inner]);
    for (const Segment& child : segment.children) record_segment(child, recorder, inner);
  };
  if (segment.kind != SegmentKind::kLoop) return record_inside();
  const Place& counter = segment.counter;
  recorder.loop(*lanes.first, segment.trip_count, counter.storage < 0 ? DevicePointer() : memory_.at(counter),
                *lanes_[inner].first, record_inside);
}

std::size_t Executor::most_bytes_copied_by(const Segment& segment) const {
  if (segment.children.empty())
    return static_cast<std::size_t>(segment.trip_count) * bytes_copied_by(segment.first, segment.last);
  std::size_t all = 0, most = 0;
  for (const Segment& child : segment.children) {
    const std::size_t bytes = most_bytes_copied_by(child);
    all += bytes;
    most = std::max(most, bytes);
  }
  return segment.kind == SegmentKind::kIf ? most : static_cast<std::size_t>(segment.trip_count) * all;
}

/// The first launch that the device does not support within a region.
std::optional<ReplayObstacle> Executor::find_obstacle(RegionBackend& device, const Segment& segment, bool in_region) {
  in_region = in_region || segment.kind != SegmentKind::kStraight;
  for (const Segment& child : segment.children)
    if (std::optional<ReplayObstacle> obstacle = find_obstacle(device, child, in_region)) return obstacle;
  if (!in_region || !segment.children.empty()) return std::nullopt;
  for (int i = segment.first; i < segment.last; ++i) {
    const std::string what = device.obstacle_in_region(stream_, [&] { submit_step(i, lanes_.front(), false); });
    if (what.empty()) continue;
    const Step& step = program_.steps[static_cast<std::size_t>(i)];
    return ReplayObstacle{.reason = fmt::format("{} submits {}, which no loop or branch on the device may hold",
                                                step.kernel == nullptr ? "a copy" : step.kernel->name(), what),
                          .path = step.label};
  }
  return std::nullopt;
}

}  // namespace headroom
