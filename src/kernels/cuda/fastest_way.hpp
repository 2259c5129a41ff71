#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "kernels/cuda/search.hpp"

namespace headroom::cuda {

/// The ways to do some work on a device. A Way has a `name`, which tells it from the others in every process, and `workspace_bytes`.
template <class Way>
struct Ways {
  std::function<std::vector<Way>()> list;  ///< best guess first
  std::function<std::optional<Way>(const std::string& name)> find;
  /// Submits one to a stream (cudaStream_t), on operands of Work; throws Error where it is refused.
  std::function<void(const Way& way, void* stream, std::span<void* const> operands, void* workspace)> run;
};

/// The fastest, or where work is too small to be timed the first. That it is the fastest as measured, here or before, its name then
/// says at the end. Throws Error where there is none.
template <class Way>
[[nodiscard]] Way fastest_way(Search& search, const Work& work, bool is_timed, const Ways<Way>& ways) {
  const auto as_measured = [](Way way) {
    way.name += ", fastest as measured";
    return way;
  };
  if (is_timed)
    if (const std::optional<std::string> known = search.find_known(work.text))
      if (std::optional<Way> way = ways.find(*known)) return as_measured(*std::move(way));
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
