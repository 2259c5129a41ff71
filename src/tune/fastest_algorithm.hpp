#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/target.hpp"
#include "tune/tuner.hpp"

namespace headroom::tune {

/// The ways to do some work on a device. A Way has a `name`, which tells it from the others in every process, and `workspace_bytes`.
template <class Algorithm>
struct Algorithms {
  std::function<std::vector<Algorithm>()> list;  ///< best guess first
  std::function<std::optional<Algorithm>(const std::string& name)> find;
  /// Submits one to a stream (cudaStream_t), on operands of Work; throws Error where it is refused.
  std::function<void(const Algorithm& algorithm, void* stream, std::span<void* const> operands, void* workspace)> run;
  /// The way to this work for what was the fastest in another size; as `find` where there is none.
  std::function<std::optional<Algorithm>(const std::string& name)> find_nearest = {};
  /// The best guesses among those that are made at once, best first; the first of `list` where there is none.
  std::function<std::vector<Algorithm>()> guess = {};
};

namespace detail {

template <class Algorithm>
[[nodiscard]] bool accepts(Tuner& search, const Work& work, const Algorithms<Algorithm>& algorithms,
                           const Algorithm& algorithm) {
  return search.accepts(work, {algorithm.name, algorithm.workspace_bytes},
                        [&](std::size_t /*index*/, void* stream, std::span<void* const> operands, void* workspace) {
                          algorithms.run(algorithm, stream, operands, workspace);
                        });
}

/// What was the fastest in the nearest size in which this work has it too, and says so. Nothing where there is none.
template <class Algorithm>
[[nodiscard]] std::optional<Algorithm> algorithm_of_nearest_size(Tuner& search, const Work& work,
                                                                 const Algorithms<Algorithm>& algorithms) {
  std::set<std::string> refused;
  for (const TunedSize& tuned : search.find_nearest(work)) {
    if (refused.contains(tuned.algorithm)) continue;
    std::optional<Algorithm> algorithm =
        algorithms.find_nearest ? algorithms.find_nearest(tuned.algorithm) : algorithms.find(tuned.algorithm);
    if (!algorithm || !accepts(search, work, algorithms, *algorithm)) {
      refused.insert(tuned.algorithm);
      continue;
    }
    const std::string from = taken_over_from(tuned.size);
    if (!algorithm->name.ends_with(from))
      algorithm->name += from;  // a product's algorithm was taken over from there as well
    return algorithm;
  }
  return std::nullopt;
}

/// Nothing where none is accepted.
template <class Algorithm>
[[nodiscard]] std::optional<Algorithm> guessed_algorithm(Tuner& search, const Work& work,
                                                         const Algorithms<Algorithm>& algorithms) {
  std::vector<Algorithm> guesses = algorithms.guess ? algorithms.guess() : algorithms.list();
  for (Algorithm& algorithm : guesses)
    if (accepts(search, work, algorithms, algorithm)) return std::move(algorithm);
  return std::nullopt;
}

}  // namespace detail

/// The fastest, or where work is too small to be timed the first. That it is the fastest as measured, here or before, its name then
/// says at the end. Where new work is not to be timed it is what was fastest for its kin, as its name then says, or a guess; such a choice
/// is kept nowhere. If none of those runs, it is timed after all. Throws Error where there is none.
template <class Algorithm>
[[nodiscard]] Algorithm fastest_algorithm(Tuner& search, const Work& work, bool is_timed, NewWork new_work,
                                          const Algorithms<Algorithm>& algorithms) {
  const auto as_measured = [](Algorithm algorithm) {
    algorithm.name += ", fastest as measured";
    return algorithm;
  };
  if (is_timed) {
    if (const std::optional<std::string> known = search.find_known(work))
      if (std::optional<Algorithm> algorithm = algorithms.find(*known)) return as_measured(*std::move(algorithm));
    if (new_work == NewWork::kTakeOver) {
      if (std::optional<Algorithm> algorithm = detail::algorithm_of_nearest_size(search, work, algorithms))
        return *std::move(algorithm);
      if (std::optional<Algorithm> algorithm = detail::guessed_algorithm(search, work, algorithms))
        return *std::move(algorithm);
    }
  }
  std::vector<Algorithm> listed = algorithms.list();
  if (listed.empty()) fail("this device has no way to run {}", work.text);
  if (!is_timed || listed.size() == 1) return std::move(listed.front());
  std::vector<Candidate> candidates;
  for (const Algorithm& algorithm : listed) candidates.push_back({algorithm.name, algorithm.workspace_bytes});
  const std::optional<Choice> choice = search.find_fastest(
      work, candidates, [&](std::size_t index, void* stream, std::span<void* const> operands, void* workspace) {
        algorithms.run(listed[index], stream, operands, workspace);
      });
  if (!choice) fail("all {} ways to run {} were refused", listed.size(), work.text);
  Algorithm& chosen = listed[choice->index];
  return choice->is_measured ? as_measured(std::move(chosen)) : std::move(chosen);
}

}  // namespace headroom::tune
