#include "run/session/launcher.hpp"

#include <algorithm>
#include <numeric>

#include "base/clock.hpp"
#include "kernels/core/parallel.hpp"

namespace headroom {
namespace {

/// The launch arguments of a step, with operand addresses from `lies_at`; `inputs` and `outputs` are their storage.
template <class LiesAt>
LaunchArguments arguments_of(const Step& step, Stream& stream, std::vector<DevicePointer>& inputs,
                             std::vector<DevicePointer>& outputs, DevicePointer scratch, const LiesAt& lies_at) {
  std::ranges::transform(step.input_places, inputs.begin(), lies_at);
  std::ranges::transform(step.output_places, outputs.begin(), lies_at);
  return {.stream = stream,
          .inputs = std::span(inputs).first(step.input_places.size()),
          .outputs = std::span(outputs).first(step.output_places.size()),
          .scratch = scratch};
}

}  // namespace

Launcher::Launcher(const Program& program, Backend& backend, const SessionMemory& memory)
    : program_(program),
      backend_(backend),
      memory_(memory),
      threads_(program.tiled.empty() ? 1 : static_cast<std::size_t>(program.target.threads)) {
  std::size_t most_inputs = 0, most_outputs = 0;
  for (const Step& step : program.steps) {
    most_inputs = std::max(most_inputs, step.input_places.size());
    most_outputs = std::max(most_outputs, step.output_places.size());
  }
  for (Thread& thread : threads_) {
    thread.inputs.resize(most_inputs);
    thread.outputs.resize(most_outputs);
  }
}

void Launcher::launch(const Step& step, Stream& stream) {
  Thread& thread = threads_.front();
  const LaunchArguments arguments = arguments_of(step, stream, thread.inputs, thread.outputs,
                                                 step.scratch < 0 ? DevicePointer() : memory_.base(step.scratch),
                                                 [&](const Place& place) { return memory_.at(place); });
  if (step.prepared == nullptr) {  // a copy
    backend_.copy_on_device(stream, arguments.outputs[0], arguments.inputs[0],
                            program_.graph.type(step.outputs[0]).bytes());
    return;
  }
  backend_.begin_range(step.label.c_str());
  step.prepared->launch(arguments);
  backend_.end_range();
}

void Launcher::launch_observed(int index, Stream& stream) {
  const auto start = std::chrono::steady_clock::now();
  launch(program_.steps[static_cast<std::size_t>(index)], stream);
  stream.synchronize();
  observer_(index, {.start = start, .milliseconds = milliseconds_since(start)});
}

void Launcher::launch_tiled(const TiledRun& run, Stream& stream) {
  const auto start = std::chrono::steady_clock::now();
  if (observer_)
    for (Thread& thread : threads_) thread.step_ms.assign(static_cast<std::size_t>(run.last - run.first), 0.0);
  parallel_for(program_.target.threads, run.parts, 1, [&](std::int64_t begin, std::int64_t end, int thread) {
    for (std::int64_t part = begin; part < end; ++part) launch_part(run, stream, part, thread);
  });
  if (observer_) tell_tiled(run, start);
}

void Launcher::tell_tiled(const TiledRun& run, std::chrono::steady_clock::time_point start) {
  const double wall = milliseconds_since(start);
  std::vector<double> step_ms(static_cast<std::size_t>(run.last - run.first), 0.0);
  for (const Thread& thread : threads_)
    for (std::size_t i = 0; i < step_ms.size(); ++i) step_ms[i] += thread.step_ms[i];
  const double all = std::reduce(step_ms.begin(), step_ms.end());
  double before = 0;
  for (std::size_t i = 0; i < step_ms.size(); ++i) {
    const double milliseconds = all > 0 ? wall * step_ms[i] / all : 0;  // a coarse clock may have measured 0
    const std::chrono::duration<double, std::milli> offset(before);
    observer_(run.first + static_cast<int>(i),
              {.start = start + std::chrono::duration_cast<std::chrono::steady_clock::duration>(offset),
               .milliseconds = milliseconds});
    before += milliseconds;
  }
}

void Launcher::launch_part(const TiledRun& run, Stream& stream, std::int64_t part, int thread) {
  Thread& own = threads_[static_cast<std::size_t>(thread)];
  for (int i = run.first; i < run.last; ++i) {
    const Step& step = program_.steps[static_cast<std::size_t>(i)];
    const auto start = observer_ ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
    const auto index = static_cast<std::size_t>(i - run.first);
    run.prepared[index][static_cast<std::size_t>(thread)]->launch(
        arguments_of(step, stream, own.inputs, own.outputs,
                     step.scratch < 0 ? DevicePointer() : part_base(step.scratch, run, thread),
                     [&](const Place& place) { return part_place(place, run, part, thread); }));
    if (observer_) own.step_ms[index] += milliseconds_since(start);
  }
}

/// The start of a storage of one part while `thread` runs that part.
DevicePointer Launcher::part_base(int storage, const TiledRun& run, int thread) const {
  return memory_.base(run.memory) + static_cast<std::size_t>(thread) * run.thread_bytes +
         program_.storages[static_cast<std::size_t>(storage)].arena_offset;
}

DevicePointer Launcher::part_place(const Place& place, const TiledRun& run, std::int64_t part, int thread) const {
  if (program_.storages[static_cast<std::size_t>(place.storage)].kind == StorageKind::kPart)
    return part_base(place.storage, run, thread) + place.offset_bytes;
  return memory_.at(place) + static_cast<std::size_t>(part) * place.bytes_between_parts;
}

}  // namespace headroom
