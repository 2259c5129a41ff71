#include "cli/live/status.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "base/text/utf8.hpp"
#include "measure/statistics/statistics.hpp"

namespace headroom {
namespace {

using nlohmann::json;

constexpr std::size_t kMostPromptBytes = 2000;
constexpr std::size_t kMostPoints = 240;                            // of the curve, a few pixels per point
constexpr std::int64_t kLargestSeed = (std::int64_t{1} << 53) - 1;  // the largest that JavaScript represents exactly

json controls_json(const StreamControls& controls, const StreamFacts& facts) {
  json out = json::object();
  if (facts.takes_prompt) out["prompt"] = controls.prompt;
  if (facts.takes_negative_prompt) out["negative_prompt"] = controls.negative_prompt;
  if (facts.takes_steps) out["steps"] = controls.steps;
  if (facts.takes_strength) out["strength"] = controls.strength;
  if (facts.takes_guidance) out["guidance_scale"] = controls.guidance_scale;
  if (facts.takes_similarity) out["similarity"] = controls.similarity;
  if (facts.takes_seed) out["seed"] = controls.seed;
  if (facts.takes_pause) out["paused"] = controls.paused;
  return out;
}

/// Rounds to microseconds, which keeps the document short.
double rounded(double ms) { return std::round(ms * 1e3) / 1e3; }

json latency_json(const std::vector<FrameTimes>& frames) {
  std::vector<double> sorted;
  sorted.reserve(frames.size());
  for (const FrameTimes& times : frames) sorted.push_back(times.latency_ms);
  std::ranges::sort(sorted);
  const auto quantile = [&](double p) { return rounded(quantile_of_sorted(sorted, p)); };
  return {{"p50", quantile(0.5)}, {"p90", quantile(0.9)}, {"p99", quantile(0.99)}, {"p99_9", quantile(0.999)}};
}

/// Latencies from old to new. Each point is the maximum of as many frames as needed to have at most kMostPoints.
json curve_json(const std::vector<FrameTimes>& frames) {
  const std::size_t each = std::max<std::size_t>((frames.size() + kMostPoints - 1) / kMostPoints, 1);
  json points = json::array();
  for (std::size_t first = 0; first < frames.size(); first += each) {
    double worst = 0;
    for (std::size_t i = first; i < std::min(first + each, frames.size()); ++i)
      worst = std::max(worst, frames[i].latency_ms);
    points.push_back(rounded(worst));
  }
  return {{"frames_each", each}, {"worst_ms", std::move(points)}};
}

json parts_json(const std::vector<FrameTimes>& frames) {
  const auto median_of = [&](double FrameTimes::*part) {
    std::vector<double> values;
    values.reserve(frames.size());
    for (const FrameTimes& times : frames) values.push_back(times.*part);
    return rounded(median(values));
  };
  return {{"decode", median_of(&FrameTimes::decode_ms)},
          {"queue", median_of(&FrameTimes::queue_ms)},
          {"device", median_of(&FrameTimes::device_ms)},
          {"encode", median_of(&FrameTimes::encode_ms)}};
}

std::string read_text(const json& object, const std::string& key, std::string_view context) {
  std::string text = get_string(object, key, context);
  if (text.size() > kMostPromptBytes)
    fail("{}: {} has {} bytes, expected at most {}", context, key, text.size(), kMostPromptBytes);
  for (std::string_view rest = text; !rest.empty();) {
    const Utf8Character character = first_character(rest);
    if (is_control(character.code))
      fail("{}: {} holds a control character, U+{:04X}", context, key, std::uint32_t{character.code});
    rest.remove_prefix(character.bytes);
  }
  return text;
}

void change_one(StreamControls& controls, const json& object, const std::string& key, std::string_view context) {
  const auto number = [&] { return get_double(object, key, context); };
  if (key == "prompt") {
    controls.prompt = read_text(object, key, context);
  } else if (key == "negative_prompt") {
    controls.negative_prompt = read_text(object, key, context);
  } else if (key == "steps") {
    controls.steps = get_int(object, key, context);
  } else if (key == "strength") {
    controls.strength = number();
  } else if (key == "guidance_scale") {
    controls.guidance_scale = number();
  } else if (key == "similarity") {
    controls.similarity = number();
  } else if (key == "seed") {
    const std::int64_t seed = get_int(object, key, context);
    if (seed < 0 || seed > kLargestSeed) fail("{}: seed is {}, expected 0 to {}", context, seed, kLargestSeed);
    controls.seed = static_cast<std::uint64_t>(seed);
  } else if (key == "paused") {
    controls.paused = get_bool(object, key, context);
  } else {
    fail(
        "{}: '{}' is nothing that can be changed; expected prompt, negative_prompt, steps, strength, guidance_scale, "
        "similarity, "
        "seed or paused",
        context, key);
  }
}

}  // namespace

json live_status(const LiveView& view) {
  const StreamFacts& facts = view.facts();
  const StreamCounters counters = view.counters();
  const LiveView::Times times = view.times_after(0);
  json out = {{"model", facts.model},
              {"device", facts.device},
              {"switches", facts.switches},
              {"width", facts.width},
              {"height", facts.height},
              {"input_fps", facts.fps},
              {"shown", counters.shown},
              {"repeated", counters.repeated},
              {"dropped", counters.dropped},
              {"fps", counters.fps},
              {"ended", counters.ended},
              {"frames_timed", times.frames.size()},
              {"controls", controls_json(view.controls(), facts)},
              {"goal", controls_json(view.goal(), facts)},
              {"obstacle", view.obstacle()}};
  if (times.frames.empty()) return out;
  out["latency_ms"] = latency_json(times.frames);
  out["parts_ms"] = parts_json(times.frames);
  out["curve"] = curve_json(times.frames);
  return out;
}

StreamControls change_controls(std::string_view text, std::string_view context, const StreamControls& now) {
  const json object = parse_json(text, context);
  if (!object.is_object()) fail("{} is no JSON object", context);
  StreamControls controls = now;
  for (const auto& [key, value] : object.items()) change_one(controls, object, key, context);
  return controls;
}

}  // namespace headroom
