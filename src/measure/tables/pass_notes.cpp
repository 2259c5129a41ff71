#include "measure/tables/pass_notes.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "passes/precision/fast_sums.hpp"

namespace headroom {
namespace {

/// "a, b, c and 7 more"
std::string list_some(std::span<const std::string> names) {
  constexpr std::size_t kListed = 3;
  const std::string shown = fmt::format("{}", fmt::join(names.first(std::min(kListed, names.size())), ", "));
  return names.size() <= kListed ? shown : fmt::format("{} and {} more", shown, names.size() - kListed);
}

}  // namespace

std::string sentence_of(const PassNote& note) {
  if (note.nodes.empty()) return note.reason;
  return fmt::format("{} {} ({})", note.kind == NoteKind::kLossy ? "loss in" : "kept", list_some(note.nodes),
                     note.reason);
}

nlohmann::json to_json(const PassNote& note) { return {{"reason", note.reason}, {"nodes", note.nodes}}; }

std::vector<std::string> describe_losses(const PassRecord& pass, const SwitchSet& switches) {
  std::vector<std::string> sentences;
  for (const PassNote& note : pass.notes)
    if (note.kind == NoteKind::kLossy) sentences.push_back(sentence_of(note));
  if (pass.name != "fp8") return sentences;
  const std::string exact = switch_to_exact_sums(pass, switches.argument("fp8").value_or(""));
  if (!exact.empty()) sentences.push_back(fmt::format("--opt '{}' sums these in f32", exact));
  return sentences;
}

}  // namespace headroom
