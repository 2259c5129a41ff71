#include "measure/protocol/submissions.hpp"

#include <algorithm>
#include <cmath>

#include "backends/device.hpp"
#include "base/error.hpp"
#include "base/tensors/random.hpp"

namespace headroom {
namespace {

constexpr double kLeastTrialMs = 1;
constexpr int kMostRecorded = 20;  // submissions of a recording that a GPU replays
constexpr double kLongestRecordingMs = 20;
constexpr std::size_t kUnknownCache = std::size_t{256} << 20;

std::size_t cache_of(const Backend& backend) {
  const std::size_t reported = backend.properties().target.cache_bytes;
  return reported == 0 ? kUnknownCache : reported;
}

/// So many that they hide the launch of a recording: of long work one is enough.
int recorded_of(double submission_ms, double longest_ms = kLongestRecordingMs) {
  return static_cast<int>(std::clamp(std::ceil(longest_ms / submission_ms), 1.0, double{kMostRecorded}));
}

/// Several replays are made within the time of the protocol.
double longest_recording_ms(const Protocol& protocol) {
  constexpr double kLeastReplays = 5;
  return std::min(kLongestRecordingMs, 1000 * protocol.max_seconds / kLeastReplays);
}

/// Random numbers, repeated after a few million: sufficient for timing.
void fill(Backend& backend, Stream& stream, const Buffer& buffer) {
  constexpr std::size_t kFresh = std::size_t{16} << 20;
  const std::size_t fresh = std::min(kFresh, buffer.bytes());
  backend.fill_normal(stream, buffer.at(), DType::kF32, fresh / sizeof(float), {});
  for (std::size_t done = fresh; done < buffer.bytes(); done *= 2)
    backend.copy_on_device(stream, buffer.at(done), buffer.at(), std::min(done, buffer.bytes() - done));
}

}  // namespace

Protocol short_protocol(const Backend& backend, double max_seconds) {
  return {.warmup_min = 5,
          .warmup_max = 20,
          .trials = 20,
          .max_seconds = max_seconds,
          .min_trial_ms = kLeastTrialMs,
          .gpu_pci_bus_id = pci_bus_id_of(backend)};
}

double launches_in_trial(double launch_ms, bool is_cpu) {
  const double at_once = is_cpu ? 1 : recorded_of(launch_ms);
  return at_once * std::max(1.0, std::ceil(kLeastTrialMs / (at_once * launch_ms)));
}

Trials time_submissions(Backend& backend, Stream& stream, const std::function<void()>& submit,
                        const Protocol& protocol) {
  const auto submit_and_wait = [&] {
    submit();
    stream.synchronize();
  };
  if (!obstacle_to(Capability::kRecording, backend.properties().target).empty())
    return measure_callable(submit_and_wait, protocol);
  submit_and_wait();  // what the first one sets up takes no part in the time
  const double start_ms = steady_clock_ms();
  submit_and_wait();
  const int recorded = recorded_of(steady_clock_ms() - start_ms, longest_recording_ms(protocol));
  const std::unique_ptr<Recording> recording = backend.record(stream, [&] {
    for (int i = 0; i < recorded; ++i) submit();
  });
  Trials trials = measure_callable(
      [&] {
        recording->replay(stream);
        stream.synchronize();
      },
      protocol);
  for (double& ms : trials.wall_ms) ms /= recorded;
  return trials;
}

CacheEvictor::CacheEvictor(Backend& backend)
    : backend_(backend),
      bytes_(cache_of(backend)),
      first_(backend.allocate(bytes_, MemoryCategory::kWorkspace)),
      second_(backend.allocate(bytes_, MemoryCategory::kWorkspace)) {
  const std::unique_ptr<Stream> stream = backend.make_stream();
  fill(backend, *stream, first_);
  stream->synchronize();
}

void CacheEvictor::submit(Stream& stream) {
  // Stores of a large copy may bypass the caches, loads do not: both halves are read.
  backend_.copy_on_device(stream, second_.at(), first_.at(), bytes_);
  backend_.copy_on_device(stream, first_.at(), second_.at(), bytes_);
}

Trials time_cold_submissions(Backend& backend, Stream& stream, const std::function<void()>& submit,
                             CacheEvictor& evictor, const Protocol& protocol) {
  const std::unique_ptr<Event> start = backend.make_event();
  const std::unique_ptr<Event> stop = backend.make_event();
  return measure_self_timed(
      [&] {
        evictor.submit(stream);
        start->record(stream);
        submit();
        stop->record(stream);
        return stop->milliseconds_since(*start);
      },
      protocol);
}

void CopyRun::reserve(std::size_t bytes) {
  if (bytes <= from_.bytes()) return;
  from_ = Buffer();
  to_ = Buffer();
  from_ = backend_.allocate(bytes, MemoryCategory::kWorkspace);
  to_ = backend_.allocate(bytes, MemoryCategory::kWorkspace);
  fill(backend_, *stream_, from_);
}

void CopyRun::submit(std::size_t bytes) {
  HR_CHECK_LE(bytes, from_.bytes());
  backend_.copy_on_device(*stream_, to_.at(), from_.at(), bytes);
}

}  // namespace headroom
