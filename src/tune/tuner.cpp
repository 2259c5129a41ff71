#include "tune/tuner.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "base/error.hpp"
#include "base/out_of_memory.hpp"

namespace headroom::tune {
namespace {

constexpr std::size_t kMostBytes = std::size_t{4} << 30;
constexpr double kWarmUpMs = 40;     // until an idle GPU reaches its clocks under load
constexpr double kTimedMs = 1;       // launches in a row: hides the timer's resolution and the first launch's latency
constexpr int kMostLaunches = 32;    // in a row
constexpr int kRounds = 5;           // over all candidates; the median counts
constexpr double kHopeless = 1.25;   // times the fastest first timing: not timed again
constexpr double kLeastGain = 0.02;  // below this the first candidate stays: the next measurement might differ
constexpr double kNever = std::numeric_limits<double>::infinity();

/// The operands of some work and the largest workspace, in one block of memory, and a stream to run on.
class Trial {
 public:
  /// Throws OutOfMemory.
  Trial(Backend& backend, const FillRandom& fill_random, const Work& work, std::span<const Candidate> candidates,
        const LaunchCandidate& launch)
      : backend_(backend), work_(work), launch_(launch), stream_(backend.make_stream()) {
    std::size_t bytes = 0;
    for (const TrialOperand& operand : work.operands) {
      offsets_.push_back(bytes);
      bytes += operand.copies * part_bytes(operand.bytes);
    }
    workspace_ = bytes;
    bytes += std::ranges::max(candidates, {}, &Candidate::workspace_bytes).workspace_bytes;
    if (bytes > kMostBytes) throw OutOfMemory("too much to time algorithms on");
    memory_ = backend.allocate(bytes, MemoryCategory::kWorkspace);
    for (std::size_t i = 0; i < offsets_.size(); ++i)
      if (const TrialOperand& operand = work.operands[i]; !operand.is_result)
        fill_random(*stream_, operand.dtype, memory_.at(offsets_[i]), operand.copies * part_bytes(operand.bytes));
    begin_ = backend.make_event();
    end_ = backend.make_event();
  }

  void run(std::size_t candidate) {
    std::vector<void*> operands;
    for (std::size_t i = 0; i < offsets_.size(); ++i)
      operands.push_back(
          memory_.at(offsets_[i] + turn_ % work_.operands[i].copies * part_bytes(work_.operands[i].bytes)).address());
    ++turn_;
    launch_(candidate, stream_->native_handle(), operands, memory_.at(workspace_).address());
  }

  /// Waits for all launches. Throws Error where one of them failed.
  void finish() { stream_->synchronize(); }

  /// Device time of one launch in milliseconds, over that many launches in a row.
  [[nodiscard]] double time(std::size_t candidate, int launches) {
    return time_of(launches, [&] {
      for (int i = 0; i < launches; ++i) run(candidate);
    });
  }

  /// A recording of several launches of a candidate, as in runs: they are submitted at once, so that the host's
  /// launch overhead does not count, and each begins as early as its predecessor allows.
  struct Row {
    std::unique_ptr<Recording> recording;
    int launches = 0;
  };
  [[nodiscard]] Row record(std::size_t candidate, int launches) {
    Row row{backend_.record(*stream_,
                            [&] {
                              for (int i = 0; i < launches; ++i) run(candidate);
                            }),
            launches};
    row.recording->replay(*stream_);  // the first replay uploads the graph
    return row;
  }
  [[nodiscard]] double time(const Row& row) {
    return time_of(row.launches, [&] { row.recording->replay(*stream_); });
  }

 private:
  template <class Submit>
  [[nodiscard]] double time_of(int launches, const Submit& submit) {
    begin_->record(*stream_);
    submit();
    end_->record(*stream_);
    return end_->milliseconds_since(*begin_) / launches;
  }

  Backend& backend_;
  const Work& work_;
  const LaunchCandidate& launch_;
  std::unique_ptr<Stream> stream_;
  std::vector<std::size_t> offsets_;
  std::size_t workspace_ = 0, turn_ = 0;
  Buffer memory_;
  std::unique_ptr<Event> begin_, end_;
};

/// Brings an idle GPU up to its clocks under load. Once is enough, because searches follow each other.
struct WarmUp {
  explicit WarmUp(Backend& /*backend*/) {}

  void run(Trial& trial, std::size_t candidate) {
    if (is_done.exchange(true)) return;
    for (double ms = 0; ms < kWarmUpMs;) ms += kMostLaunches * trial.time(candidate, kMostLaunches);
  }

  std::atomic<bool> is_done = false;
};

/// The first timing of a candidate, after one launch that loads its code; infinite if the library lists the
/// candidate and then refuses it.
double first_sight(Trial& trial, std::size_t candidate) {
  try {
    trial.run(candidate);
    return trial.time(candidate, 1);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error&) {
    return kNever;
  }
}

int launches_of(double ms) {
  return static_cast<int>(std::clamp(kTimedMs / ms, 1.0, static_cast<double>(kMostLaunches)));
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// The work reduced to one copy of each operand, with arbitrary contents: enough for a single launch.
Work once(const Work& work) {
  Work made = work;
  for (TrialOperand& operand : made.operands) operand.copies = 1, operand.is_result = true;
  return made;
}

}  // namespace

Tuner::Tuner(Backend& backend, std::string driver, std::string library, FillRandom fill_random)
    : backend_(backend),
      fill_random_(std::move(fill_random)),
      cache_(TuningCache::of_user(
          {.device = backend.properties().name, .driver = std::move(driver), .library = std::move(library)})) {}

std::optional<std::string> Tuner::find_known(const Work& work) {
  const std::scoped_lock lock(mutex_);
  if (const auto found = known_.find(work.text); found != known_.end()) return found->second;
  std::optional<std::string> kept = cache_ ? cache_->find(work.text) : std::nullopt;
  if (kept) remember(work, *kept);
  return kept;
}

void Tuner::remember(const Work& work, const std::string& name) {
  known_[work.text] = name;
  if (work.size_key.family.empty()) return;
  std::vector<TunedSize>& family = tuned_sizes_[work.size_key.family];
  std::erase_if(family, [&](const TunedSize& other) { return other.size == work.size_key.size; });
  family.push_back({name, work.size_key.size});
}

void Tuner::keep(const Work& work, const std::string& name, double microseconds) {
  const std::scoped_lock lock(mutex_);
  remember(work, name);
  if (cache_) cache_->store(work.text, name, microseconds, work.size_key);
}

std::vector<TunedSize> Tuner::find_nearest(const Work& work) {
  if (work.size_key.family.empty()) return {};
  const std::scoped_lock lock(mutex_);
  std::vector<TunedSize> family = tuned_sizes_[work.size_key.family];
  if (cache_)
    for (TunedSize& kept : cache_->find_family(work.size_key.family))
      if (std::ranges::count(family, kept.size, &TunedSize::size) == 0) family.push_back(std::move(kept));
  return nearest_first(std::move(family), work.size_key.size);
}

bool Tuner::accepts(const Work& work, const Candidate& candidate, const LaunchCandidate& launch) {
  const std::scoped_lock lock(mutex_);
  const Work launched = once(work);
  try {
    Trial trial(backend_, fill_random_, launched, {&candidate, 1}, launch);
    trial.run(0);
    trial.finish();
  } catch (const OutOfMemory&) {
    return true;
  } catch (const Error&) {
    return false;
  }
  return true;  // the backend keeps that memory for later launches
}

/// Milliseconds per launch of each candidate, infinite if it is refused. Candidates alternate round by round, so
/// that a change of the GPU's clocks affects all of them.
std::vector<double> Tuner::measure(const Work& work, std::span<const Candidate> candidates,
                                   const LaunchCandidate& launch) {
  Trial trial(backend_, fill_random_, work, candidates, launch);
  std::vector<double> first_ms(candidates.size());
  const auto look = [&] {
    for (std::size_t i = 0; i < candidates.size(); ++i)
      if (std::isfinite(first_ms[i])) first_ms[i] = first_sight(trial, i);
    return static_cast<std::size_t>(std::ranges::min_element(first_ms) - first_ms.begin());
  };
  std::size_t best = look();
  if (!std::isfinite(first_ms[best])) return first_ms;
  backend_.context<WarmUp>()->run(trial, best);
  best = look();
  std::vector<Trial::Row> rows(candidates.size());
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (first_ms[i] <= kHopeless * first_ms[best]) rows[i] = trial.record(i, launches_of(first_ms[i]));
  std::vector<std::vector<double>> ms(candidates.size());
  for (int round = 0; round < kRounds; ++round)
    for (std::size_t i = 0; i < candidates.size(); ++i)
      if (rows[i].recording != nullptr) ms[i].push_back(trial.time(rows[i]));
  std::vector<double> medians;
  for (const std::vector<double>& times : ms) medians.push_back(times.empty() ? kNever : median(times));
  return medians;
}

std::optional<Choice> Tuner::find_fastest(const Work& work, std::span<const Candidate> candidates,
                                          const LaunchCandidate& launch) {
  HR_CHECK(!candidates.empty());
  const std::scoped_lock lock(mutex_);
  if (const std::optional<std::string> known = find_known(work)) {
    const auto found = std::ranges::find(candidates, *known, &Candidate::name);
    if (found != candidates.end())
      return Choice{.index = static_cast<std::size_t>(found - candidates.begin()), .is_measured = true};
  }
  std::vector<double> ms;
  try {
    ms = measure(work, candidates, launch);
    backend_.release_unused();  // memory reports of models must not include it
  } catch (const OutOfMemory&) {
    return Choice{};
  }
  auto fastest = static_cast<std::size_t>(std::ranges::min_element(ms) - ms.begin());
  if (!std::isfinite(ms[fastest])) return std::nullopt;
  if (ms[fastest] > (1 - kLeastGain) * ms.front()) fastest = 0;
  keep(work, candidates[fastest].name, 1e3 * ms[fastest]);
  return Choice{.index = fastest, .is_measured = true};
}

}  // namespace headroom::tune
