#include "measure/results/chrome_trace.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/text/json.hpp"

namespace headroom {
namespace {

constexpr int kProcess = 1;

double microseconds(std::int64_t ns) { return static_cast<double>(ns) / 1000; }

nlohmann::json named(const char* what, int track, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", kProcess}, {"tid", track}, {"args", {{"name", name}}}};
}

/// Delays slices until earlier ones on their track have ended; `slices` are in order of start.
void cut_overlaps(std::vector<TraceSlice>& slices) {
  std::map<std::string, std::int64_t> ends_ns;
  for (TraceSlice& slice : slices) {
    std::int64_t& end_ns = ends_ns.try_emplace(slice.track, slice.start_ns).first->second;
    slice.start_ns = std::max(slice.start_ns, end_ns);
    slice.end_ns = std::max(slice.end_ns, slice.start_ns);
    end_ns = slice.end_ns;
  }
}

}  // namespace

std::string to_chrome_trace(std::vector<TraceSlice> slices) {
  std::map<std::string, int> tracks;
  nlohmann::json events = nlohmann::json::array();
  events.push_back(named("process_name", 0, "headroom"));
  for (const TraceSlice& slice : slices)
    if (tracks.try_emplace(slice.track, static_cast<int>(tracks.size()) + 1).second)
      events.push_back(named("thread_name", tracks.at(slice.track), slice.track));
  std::ranges::stable_sort(slices, {}, &TraceSlice::start_ns);
  cut_overlaps(slices);
  for (const TraceSlice& slice : slices) {
    nlohmann::json details = nlohmann::json::object();
    for (const auto& [name, value] : slice.details) std::visit([&](const auto& of) { details[name] = of; }, value);
    events.push_back({{"ph", "X"},
                      {"name", slice.name},
                      {"pid", kProcess},
                      {"tid", tracks.at(slice.track)},
                      {"ts", microseconds(slice.start_ns - slices.front().start_ns)},
                      {"dur", microseconds(slice.end_ns - slice.start_ns)},
                      {"args", std::move(details)}});
  }
  return dump_json({{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}, -1);
}

}  // namespace headroom
