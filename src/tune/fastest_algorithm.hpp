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

namespace headroom::cuda {

/// The ways to do some work on a device. A Way has a `name`, which tells it from the others in every process, and `workspace_bytes`.
template <class Way>
struct Ways {
  std::function<std::vector<Way>()> list;  ///< best guess first
  std::function<std::optional<Way>(const std::string& name)> find;
  /// Submits one to a stream (cudaStream_t), on operands of Work; throws Error where it is refused.
  std::function<void(const Way& way, void* stream, std::span<void* const> operands, void* workspace)> run;
  /// The way to this work for what was the fastest in another size; as `find` where there is none.
  std::function<std::optional<Way>(const std::string& name)> find_kin = {};
  /// The best guesses among those that are made at once, best first; the first of `list` where there is none.
  std::function<std::vector<Way>()> guess = {};
};

namespace detail {

template <class Way>
[[nodiscard]] bool accepts(Search& search, const Work& work, const Ways<Way>& ways, const Way& way) {
  return search.accepts(work, {way.name, way.workspace_bytes},
                        [&](std::size_t /*index*/, void* stream, std::span<void* const> operands, void* workspace) {
                          ways.run(way, stream, operands, workspace);
                        });
}

/// What was the fastest in the nearest size in which this work has it too, and says so. Nothing where there is none.
template <class Way>
[[nodiscard]] std::optional<Way> way_of_kin(Search& search, const Work& work, const Ways<Way>& ways) {
  std::set<std::string> refused;
  for (const Relative& relative : search.find_kin(work)) {
    if (refused.contains(relative.algorithm)) continue;
    std::optional<Way> way = ways.find_kin ? ways.find_kin(relative.algorithm) : ways.find(relative.algorithm);
    if (!way || !accepts(search, work, ways, *way)) {
      refused.insert(relative.algorithm);
      continue;
    }
    const std::string from = taken_over_from(relative.size);
    if (!way->name.ends_with(from)) way->name += from;  // a product's algorithm was taken over from there as well
    return way;
  }
  return std::nullopt;
}

/// Nothing where none is accepted.
template <class Way>
[[nodiscard]] std::optional<Way> guessed_way(Search& search, const Work& work, const Ways<Way>& ways) {
  std::vector<Way> guesses = ways.guess ? ways.guess() : ways.list();
  for (Way& way : guesses)
    if (accepts(search, work, ways, way)) return std::move(way);
  return std::nullopt;
}

}  // namespace detail

/// The fastest, or where work is too small to be timed the first. That it is the fastest as measured, here or before, its name then
/// says at the end. Where new work is not to be timed it is what was fastest for its kin, as its name then says, or a guess; such a choice
/// is kept nowhere. If none of those runs, it is timed after all. Throws Error where there is none.
template <class Way>
[[nodiscard]] Way fastest_way(Search& search, const Work& work, bool is_timed, NewWork new_work,
                              const Ways<Way>& ways) {
  const auto as_measured = [](Way way) {
    way.name += ", fastest as measured";
    return way;
  };
  if (is_timed) {
    if (const std::optional<std::string> known = search.find_known(work))
      if (std::optional<Way> way = ways.find(*known)) return as_measured(*std::move(way));
    if (new_work == NewWork::kTakeOver) {
      if (std::optional<Way> way = detail::way_of_kin(search, work, ways)) return *std::move(way);
      if (std::optional<Way> way = detail::guessed_way(search, work, ways)) return *std::move(way);
    }
  }
  std::vector<Way> listed = ways.list();
  if (listed.empty()) fail("this device has no way to run {}", work.text);
  if (!is_timed || listed.size() == 1) return std::move(listed.front());
  std::vector<Candidate> candidates;
  for (const Way& way : listed) candidates.push_back({way.name, way.workspace_bytes});
  const std::optional<Choice> choice = search.find_fastest(
      work, candidates, [&](std::size_t index, void* stream, std::span<void* const> operands, void* workspace) {
        ways.run(listed[index], stream, operands, workspace);
      });
  if (!choice) fail("all {} ways to run {} were refused", listed.size(), work.text);
  Way& chosen = listed[choice->index];
  return choice->is_measured ? as_measured(std::move(chosen)) : std::move(chosen);
}

}  // namespace headroom::cuda
