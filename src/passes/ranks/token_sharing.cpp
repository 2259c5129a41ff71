#include "passes/ranks/token_sharing.hpp"

#include "base/switch_argument.hpp"

namespace headroom {

ContextParallel ContextParallel::parse(std::string_view argument) {
  constexpr std::int64_t kMostRanks = 64;
  const SwitchArgument parsed("cp", argument);
  const std::string_view head = parsed.head();
  ContextParallel parallel{.ranks = static_cast<int>(parsed.whole("the number of ranks", head, 1, kMostRanks))};
  if (head.size() == argument.size()) return parallel;
  const std::string_view form = argument.substr(head.size() + 1);
  if (form == "ulysses") {
    parallel.ulysses = parallel.ranks;
  } else if (form == "ring") {
    parallel.ulysses = 1;
  } else if (const std::size_t times = form.find('x'); times != std::string_view::npos) {
    const std::int64_t ulysses =
        parsed.whole("the number of ranks that exchange heads", form.substr(0, times), 1, kMostRanks);
    const std::int64_t groups = parsed.whole("the number of groups in the ring", form.substr(times + 1), 1, kMostRanks);
    if (ulysses * groups != parallel.ranks) parsed.refuse("{} x {} ranks are not {}", ulysses, groups, parallel.ranks);
    parallel.ulysses = static_cast<int>(ulysses);
  } else {
    parsed.refuse("expected N, N:ulysses, N:ring or N:UxR, as 4:2x2");
  }
  return parallel;
}

std::int64_t first_of_share(std::int64_t extent, int rank, int ranks) { return extent * rank / ranks; }
std::int64_t share_of(std::int64_t extent, int rank, int ranks) {
  return first_of_share(extent, rank + 1, ranks) - first_of_share(extent, rank, ranks);
}

}  // namespace headroom
