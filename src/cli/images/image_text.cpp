#include "cli/images/image_text.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "measure/probes/machine.hpp"
#include "measure/results/fingerprint.hpp"

namespace headroom {
namespace {

constexpr std::string_view kKeyword = "headroom";

}  // namespace

PngText request_text(const Engine& engine, const SwitchSet& switches, const ImageJob& job) {
  nlohmann::json request = to_json(job);
  request["model"] = engine.pipeline->name();
  request["switches"] = switches.to_string();
  if (const auto& build = describe_machine().build) request["version"] = build->version;
  return {{std::string(kKeyword), request.dump()}};
}

LikeImage read_like(const std::filesystem::path& png) {
  const PngText text = read_png_text(png);
  const auto found = text.find(kKeyword);
  if (found == text.end())
    fail("{} does not say how it was made, as images of `headroom run` do, and grids of its --labels do not",
         png.string());
  const std::string context = png.string() + ": the text of its request";
  const nlohmann::json request = parse_json(found->second, context);
  return {.job = with_json({}, request, {"model", "switches", "version"}, context),
          .switches = get_string(request, "switches", context)};
}

}  // namespace headroom
