#include "run/executor.hpp"

#include <chrono>

#include "base/clock.hpp"
#include "base/error.hpp"

namespace headroom {
namespace {

/// Steps that copy to an output that is apart.
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

}  // namespace

Executor::Executor(const Program& program, Backend& backend, Stream& stream, SessionMemory& memory)
    : program_(program),
      backend_(backend),
      stream_(stream),
      memory_(memory),
      launcher_(program, backend, memory),
      output_copies_(find_output_copies(program)) {
  if (!program.has_arena) schedule_ = schedule_buffers(program);
  if (program.lanes > 1) make_lanes();
  note_binding();
}

void Executor::make_lanes() {
  for (int lane = 1; lane < program_.lanes; ++lane)
    lanes_.push_back({.stream = backend_.make_stream(), .joined = backend_.make_event()});
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
  copied_bytes_ = 0;
  if (program_.root.children.empty()) run_outside_loops(program_.root, observer);
  for (const Segment& child : program_.root.children) {
    if (child.kind == SegmentKind::kLoop)
      run_loop(child, observer);
    else
      run_outside_loops(child, observer);
  }
}

/// Waits for what it timed, so that a loop's first iteration is not charged with it.
void Executor::run_outside_loops(const Segment& segment, const IterationObserver& observer) {
  const auto start = std::chrono::steady_clock::now();
  run_segment(segment, observer);
  if (!observer) return;
  stream_.synchronize();
  outside_loops_ms_ += milliseconds_since(start);
}

void Executor::run_segment(const Segment& segment, const IterationObserver& observer) {
  if (segment.kind == SegmentKind::kLoop) return run_loop(segment, observer);
  if (segment.kind == SegmentKind::kIf) return run_if(segment, observer);
  if (segment.children.empty()) return run_steps(segment.first, segment.last);
  for (const Segment& child : segment.children) run_segment(child, observer);
}

void Executor::run_loop(const Segment& segment, const IterationObserver& observer) {
  const Place& counter = segment.counter;
  for (std::int32_t i = 0; i < segment.trip_count; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (counter.storage >= 0) backend_.copy_from_host(stream_, memory_.at(counter), &i, sizeof i);
    if (segment.children.empty())
      run_steps(segment.first, segment.last);
    else
      for (const Segment& child : segment.children) run_segment(child, observer);
    if (!observer) continue;
    stream_.synchronize();
    observer(i, milliseconds_since(start));
  }
  give_after(segment);
}

/// The host reads the predicate, for which it waits for all that was submitted.
void Executor::run_if(const Segment& segment, const IterationObserver& observer) {
  std::uint8_t predicate = 0;
  backend_.copy_to_host(stream_, &predicate, memory_.at(segment.predicate), sizeof predicate);
  stream_.synchronize();
  ++host_reads_;
  run_segment(segment.children[predicate != 0 ? 0 : 1], observer);
  give_after(segment);
}

void Executor::give_after(const Segment& segment) {
  const auto found = schedule_.give_after_segment.find(&segment);
  if (found != schedule_.give_after_segment.end())
    for (const int storage : found->second) memory_.give(storage);
}

void Executor::run_steps(int first, int last) {
  if (first == last) return;
  count_copies(first, last);
  if (!program_.has_graph || launcher_.is_observed()) return submit_steps(first, last);
  Recording* recording = recordings_.find(first);
  if (recording == nullptr) {
    memory_.keep_segments();
    recording = &recordings_.add(first, backend_.record(stream_, [&] { submit_steps(first, last); }));
  }
  recording->replay(stream_);
}

void Executor::count_copies(int first, int last) {
  for (const int copy : output_copies_) {
    const Step& step = program_.steps[static_cast<std::size_t>(copy)];
    if (first <= copy && copy < last && memory_.is_bound(step.output_places[0].storage))
      copied_bytes_ += program_.graph.type(step.outputs[0]).bytes();
  }
}

void Executor::submit_steps(int first, int last) {
  const bool spread = !lanes_.empty() && !launcher_.is_observed();
  if (spread) {
    for (Lane& lane : lanes_) lane.in_use = false;  // an exception may have left it so
    forked_->record(stream_);
  }
  for (int i = first; i < last; ++i) {
    if (const TiledRun* const run = tiled_run_at(program_, i)) {
      launcher_.launch_tiled(*run, stream_);
      i = run->last - 1;
      continue;
    }
    submit_step(i, spread);
  }
  if (spread) join_lanes();
}

void Executor::submit_step(int index, bool spread) {
  const auto i = static_cast<std::size_t>(index);
  if (!program_.has_arena)
    for (const int storage : schedule_.take_before[i]) memory_.take(storage);
  if (launcher_.is_observed())
    launcher_.launch_observed(index, stream_);
  else if (spread)
    launch_on_lane(index);
  else
    launcher_.launch(program_.steps[i], stream_);
  if (!program_.has_arena)
    for (const int storage : schedule_.give_after[i]) memory_.give(storage);
}

void Executor::launch_on_lane(int index) {
  const Step& step = program_.steps[static_cast<std::size_t>(index)];
  Stream* stream = &stream_;
  if (step.lane > 0) {
    Lane& lane = lanes_[static_cast<std::size_t>(step.lane) - 1];
    stream = lane.stream.get();
    if (!std::exchange(lane.in_use, true)) stream->wait(*forked_);
  }
  for (const int before : step.waits) stream->wait(*done_[static_cast<std::size_t>(before)]);
  launcher_.launch(step, *stream);
  if (const std::unique_ptr<Event>& event = done_[static_cast<std::size_t>(index)]) event->record(*stream);
}

void Executor::join_lanes() {
  for (Lane& lane : lanes_) {
    if (!std::exchange(lane.in_use, false)) continue;
    lane.joined->record(*lane.stream);
    stream_.wait(*lane.joined);
  }
}

}  // namespace headroom
