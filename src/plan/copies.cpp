#include "plan/copies.hpp"

#include <algorithm>

namespace headroom {

std::vector<StorageCopy> in_order(std::vector<StorageCopy> copies, int spare) {
  std::vector<StorageCopy> ordered;
  while (!copies.empty()) {
    const auto ready = std::ranges::find_if(copies, [&](const StorageCopy& copy) {
      return std::ranges::none_of(
          copies, [&](const StorageCopy& other) { return other.index != copy.index && other.from == copy.to; });
    });
    if (ready != copies.end()) {
      ordered.push_back(*ready);
      copies.erase(ready);
      continue;
    }
    ordered.push_back({.to = spare, .from = copies.front().from, .index = copies.front().index});
    copies.front().from = spare++;
  }
  return ordered;
}

}  // namespace headroom
