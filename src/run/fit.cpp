#include "run/fit.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "backends/cpu/cpu_info.hpp"
#include "backends/device.hpp"
#include "base/error.hpp"
#include "base/out_of_memory.hpp"
#include "base/text/format.hpp"
#include "run/memory_need.hpp"

namespace headroom {
namespace {

/// Switches that save memory, in the order to try: exact ones first.
constexpr std::array kSavers = {"arena", "flash", "packed", "bf16", "fp8", "int8"};

/// A request that may fit.
struct Candidate {
  std::string words;  ///< "--opt arena,bf16"
  SwitchSet switches;
  RequestSize size;
};

/// "512x512 pixels", or tokens if the size of a token is unknown.
std::string describe(const RequestSize& size) {
  if (size.token_pixels == 0) return fmt::format("{}x{} image tokens", size.token_rows, size.token_columns);
  return fmt::format("{}x{} pixels", size.token_columns * size.token_pixels, size.token_rows * size.token_pixels);
}

MemoryNeed program_need(const Program& program, const FittedRequest& request, const WeightStore& weights) {
  return request.is_setup_apart ? memory_need_alone(program, weights) : memory_need(program, weights);
}

class Suggestions {
 public:
  /// `others` is the need of the request's other stages, the same for all candidates.
  Suggestions(const FittedRequest& request, const WeightStore& weights, std::size_t available, std::size_t others)
      : request_(request), weights_(weights), available_(available), others_(others) {
    try_switches();
    try_sizes(request_.switches, "");
    if (!fitting_.empty() || !least_) return;
    const SwitchSet smallest = least_->switches;
    try_sizes(smallest, "--opt " + smallest.to_string() + " and ");
  }

  [[nodiscard]] std::string text() const {
    if (!fitting_.empty()) return fmt::format("it would fit with {}", fmt::join(fitting_, ", or "));
    if (!least_) return "no switch and no smaller request can be planned";
    return fmt::format("of what was tried nothing fits: the least is {} with {}", format_bytes(least_need_),
                       least_->words);
  }

 private:
  /// The need of the candidate; nothing if it cannot be planned, or equals the original request.
  std::optional<std::size_t> need_of(const Candidate& candidate) const {
    try {
      const Compiled compiled = request_.compile(candidate.switches, candidate.size);
      const auto is_new = [&](const Declined& declined) { return !request_.switches.has(declined.switch_name); };
      if (std::ranges::any_of(compiled.declined, is_new)) return std::nullopt;
      return program_need(*compiled.program, request_, weights_).total() + others_;
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  /// Returns whether it fits.
  bool consider(const Candidate& candidate) {
    const std::optional<std::size_t> need = need_of(candidate);
    if (!need) return false;
    if (!least_ || *need < least_need_) {
      least_ = candidate;
      least_need_ = *need;
    }
    if (*need > available_) return false;
    fitting_.push_back(fmt::format("{} ({})", candidate.words, format_bytes(*need)));
    return true;
  }

  /// Tries each switch alone; if none is enough, adds them one after the other.
  void try_switches() {
    const auto with = [&](const SwitchSet& set) {
      return Candidate{.words = "--opt " + set.to_string(), .switches = set, .size = request_.size};
    };
    std::vector<SwitchSet> savers;
    for (const char* name : kSavers)
      if (!request_.switches.has(name)) savers.push_back(SwitchSet::parse(name));
    for (const SwitchSet& saver : savers) consider(with(request_.switches.with(saver)));
    SwitchSet all = request_.switches;
    for (std::size_t i = 0; i < savers.size() && fitting_.empty(); ++i) {
      const SwitchSet more = all.with(savers[i]);
      if (!need_of(with(more))) continue;  // the switch declines
      all = more;
      if (i > 0) consider(with(all));
    }
  }

  /// Halves the number of images until they fit, and then their sides.
  void try_sizes(const SwitchSet& switches, const std::string& before) {
    const auto halve = [](std::int64_t value) { return std::max<std::int64_t>(1, value / 2); };
    RequestSize size = request_.size;
    while (size.images > 1) {
      size.images = halve(size.images);
      if (consider({before + format_count(size.images, "image") + " at once", switches, size})) break;
    }
    size = request_.size;
    while (size.token_rows > 1 || size.token_columns > 1) {
      size.token_rows = halve(size.token_rows);
      size.token_columns = halve(size.token_columns);
      if (consider({before + describe(size), switches, size})) break;
    }
  }

  const FittedRequest& request_;
  const WeightStore& weights_;
  std::size_t available_;
  std::size_t others_;
  std::vector<std::string> fitting_;
  std::optional<Candidate> least_;
  std::size_t least_need_ = 0;
};

std::string describe(const MemoryNeed& need, std::size_t others) {
  std::string text = fmt::format("{} of weights, {} of activations (scratch {}), {} of state, {} of inputs",
                                 format_bytes(need.weights), format_bytes(need.activations),
                                 format_bytes(need.workspace), format_bytes(need.state), format_bytes(need.inputs));
  if (others > 0) text += fmt::format(", {} of other stages", format_bytes(others));
  if (need.loading > 0) text += fmt::format(", {} more while weights load", format_bytes(need.loading));
  return text;
}

}  // namespace

void require_fit(const Program& program, const FittedRequest& request, const WeightStore& weights,
                 const Backend& backend) {
  const MemoryNeed need = program_need(program, request, weights);
  const std::size_t available = request.limit != 0 ? request.limit : memory_for(backend, weights);
  if (need.total() + request.other_stages <= available + need.freed) return;
  const DeviceProperties device = backend.properties();
  const std::string of_stage = request.stage.empty() ? "it" : fmt::format("its stage {}", request.stage);
  std::string sentence =
      fmt::format("{} does not fit in memory as it is asked for: {} needs {} ({}), and ", request.model, of_stage,
                  format_bytes(need.total() + request.other_stages), describe(need, request.other_stages));
  sentence += request.is_limited ? fmt::format("the memory limit that was given is {}", format_bytes(available))
                                 : fmt::format("of the {} of device {} there are {}", format_bytes(device.memory_bytes),
                                               name_of(device_of(backend)), format_bytes(available));
  if (!request.is_limited && !device.target.device->has_own_memory) {
    const SystemMemory host = system_memory();  // may have changed slightly in the meantime
    if (!host.limit.empty() && host.available_bytes <= available + available / 8) sentence += ", by " + host.limit;
  }
  if (request.suggests) sentence += "; " + Suggestions(request, weights, available, request.other_stages).text();
  throw OutOfMemory(sentence);
}

}  // namespace headroom
