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

/// The algorithms that a device offers for some work. An Algorithm has a `name`, which is unique and the same in
/// every process, and `workspace_bytes`.
template <class Algorithm>
struct Algorithms {
  std::function<std::vector<Algorithm>()> list;  ///< best guess first
  std::function<std::optional<Algorithm>(const std::string& name)> find;
  /// Submits one to a stream (cudaStream_t), on operands of Work; throws Error where the library refuses it.
  std::function<void(const Algorithm& algorithm, void* stream, std::span<void* const> operands, void* workspace)> run;
  /// The algorithm for this work that corresponds to the fastest one of another size; null: `find` is used.
  std::function<std::optional<Algorithm>(const std::string& name)> find_nearest = {};
  /// The best guesses among the algorithms that are quick to construct, best first; null: the first of `list`.
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

/// The algorithm that was fastest for the nearest tuned size and that this work accepts too; its name says so.
/// Nothing if there is none.
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
    if (!algorithm->name.ends_with(from)) algorithm->name += from;  // a GEMM's name may have it already
    return algorithm;
  }
  return std::nullopt;
}

/// The first guess that the device accepts; nothing if it accepts none.
template <class Algorithm>
[[nodiscard]] std::optional<Algorithm> guessed_algorithm(Tuner& search, const Work& work,
                                                         const Algorithms<Algorithm>& algorithms) {
  std::vector<Algorithm> guesses = algorithms.guess ? algorithms.guess() : algorithms.list();
  for (Algorithm& algorithm : guesses)
    if (accepts(search, work, algorithms, algorithm)) return std::move(algorithm);
  return std::nullopt;
}

}  // namespace detail

/// The fastest algorithm, or the first of the list for work too small to be timed. The name of a measured choice,
/// made here or earlier, ends in ", fastest as measured". New work that is not to be timed gets the algorithm of the
/// nearest tuned size, as its name then says, or a guess; such a choice is not stored. If none of those runs, the
/// work is timed after all. Throws Error if there is no algorithm.
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
  if (listed.empty()) fail("this device has no algorithm for {}", work.text);
  if (!is_timed || listed.size() == 1) return std::move(listed.front());
  std::vector<Candidate> candidates;
  for (const Algorithm& algorithm : listed) candidates.push_back({algorithm.name, algorithm.workspace_bytes});
  const std::optional<Choice> choice = search.find_fastest(
      work, candidates, [&](std::size_t index, void* stream, std::span<void* const> operands, void* workspace) {
        algorithms.run(listed[index], stream, operands, workspace);
      });
  if (!choice) fail("all {} algorithms for {} were refused", listed.size(), work.text);
  Algorithm& chosen = listed[choice->index];
  return choice->is_measured ? as_measured(std::move(chosen)) : std::move(chosen);
}

}  // namespace headroom::tune
