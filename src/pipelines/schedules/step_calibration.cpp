#include "pipelines/schedules/step_calibration.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/files/file_lock.hpp"
#include "base/files/hash.hpp"
#include "base/text/format.hpp"
#include "base/text/json.hpp"
#include "passes/step_caches/step_cache_options.hpp"

namespace headroom {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::string_view kSchema = "headroom.meancache/1";
constexpr std::size_t kHashedBytes = 256;  // of each end of a tensor
constexpr double kSameNumber = 1e-9;       // relative, of numbers over 1

bool is_same(double a, double b) { return std::abs(a - b) <= kSameNumber * std::max({1.0, std::abs(a), std::abs(b)}); }

bool is_same(const CalibratedRequest& a, const CalibratedRequest& b) {
  return a.sampler == b.sampler && a.steps == b.steps && a.token_rows == b.token_rows &&
         a.token_columns == b.token_columns && is_same(a.guidance_scale, b.guidance_scale) &&
         is_same(a.true_cfg_scale, b.true_cfg_scale) &&
         std::ranges::equal(a.timesteps, b.timesteps, [](double x, double y) { return is_same(x, y); });
}

/// "28 steps of euler, 16 x 16 tokens, guidance 3.5"
std::string describe(const CalibratedRequest& request) {
  return fmt::format("{} of {}{}, {} x {} tokens, guidance {}{}", format_count(request.steps, "step"), request.sampler,
                     request.shift ? fmt::format(":shift={}", *request.shift) : "", request.token_rows,
                     request.token_columns, request.guidance_scale,
                     request.true_cfg_scale > 1 ? fmt::format(" (two passes: {})", request.true_cfg_scale) : "");
}

/// A hash of the denoiser's weights: names, types and shapes, and both ends of each tensor's content.
std::string hash_of_weights(const Checkpoint& checkpoint) {
  Hasher hasher;
  for (const TensorSpec& tensor : checkpoint.tensors()) {
    const std::span<const std::byte> bytes = checkpoint.bytes(tensor.name);
    const std::size_t some = std::min(bytes.size(), kHashedBytes);
    hasher.add(tensor.name).add(tensor.dtype).add(tensor.shape).add(bytes.first(some)).add(bytes.last(some));
  }
  return hasher.hex();
}

json to_json(const StepCalibration& calibration) {
  const CalibratedRequest& request = calibration.request;
  json object = {{"sampler", request.sampler},
                 {"steps", request.steps},
                 {"token_rows", request.token_rows},
                 {"token_columns", request.token_columns},
                 {"guidance_scale", request.guidance_scale},
                 {"true_cfg_scale", request.true_cfg_scale},
                 {"timesteps", request.timesteps},
                 {"images", calibration.images},
                 {"schedules", json::array()},
                 {"errors", json::array()}};
  if (request.shift) object["shift"] = *request.shift;
  for (const StepSchedule& schedule : calibration.schedules) {
    object["schedules"].push_back(schedule.digits);
    object["errors"].push_back(schedule.error);
  }
  return object;
}

const json& array_of(const json& object, const char* key, const std::string& place) {
  const json& array = get(object, key, place);
  if (!array.is_array()) fail("{}: {} is no array", place, key);
  return array;
}

std::vector<double> numbers_of(const json& object, const char* key, const std::string& place) {
  std::vector<double> numbers;
  for (const json& number : array_of(object, key, place)) {
    if (!number.is_number()) fail("{}: {} holds what is no number", place, key);
    numbers.push_back(number);
  }
  return numbers;
}

StepCalibration read_calibration(const json& object, const std::string& place) {
  StepCalibration calibration{.request = {.sampler = get_string(object, "sampler", place),
                                          .steps = get_int(object, "steps", place),
                                          .shift = {},
                                          .token_rows = get_int(object, "token_rows", place),
                                          .token_columns = get_int(object, "token_columns", place),
                                          .guidance_scale = get_double(object, "guidance_scale", place),
                                          .true_cfg_scale = get_double(object, "true_cfg_scale", place),
                                          .timesteps = numbers_of(object, "timesteps", place)},
                              .images = get_int(object, "images", place),
                              .schedules = {}};
  if (object.contains("shift")) calibration.request.shift = get_double(object, "shift", place);
  const std::size_t calls = calibration.request.timesteps.size();
  const json& schedules = array_of(object, "schedules", place);
  const std::vector<double> errors = numbers_of(object, "errors", place);
  if (calls < 2 || schedules.size() != calls - 1 || errors.size() != calls - 1)
    fail("{}: there are {} timesteps, {} schedules and {} errors, expected one fewer of the latter two", place, calls,
         schedules.size(), errors.size());
  for (std::size_t i = 0; i < schedules.size(); ++i) {
    const std::string digits = schedules[i].is_string() ? schedules[i].get<std::string>() : schedules[i].dump();
    if (digits.size() != calls || digits.find_first_not_of("01") != std::string::npos || digits.front() != '1' ||
        static_cast<std::size_t>(std::ranges::count(digits, '1')) != i + 1)
      fail("{}: a schedule is '{}', expected {} digits, of which the first and {} in all are 1 and the others 0", place,
           digits, calls, i + 1);
    calibration.schedules.push_back({.digits = digits, .error = errors[i]});
  }
  return calibration;
}

}  // namespace

CalibratedRequest calibrated_request(const Pipeline& pipeline, const Request& request) {
  return {.sampler = std::string(to_string(request.sampler)),
          .steps = request.steps,
          .shift = request.shift,
          .token_rows = request.token_rows,
          .token_columns = request.token_columns,
          .guidance_scale = request.guidance_scale,
          .true_cfg_scale = request.true_cfg_scale,
          .timesteps = pipeline.sampler_tables(request).timesteps};
}

fs::path calibration_file(const Pipeline& pipeline) {
  const Checkpoint& checkpoint = pipeline.denoiser().checkpoint;
  return checkpoint.folder().empty() ? fs::path() : checkpoint.folder() / kCalibrationFile;
}

std::optional<std::vector<StepCalibration>> read_calibrations(const Pipeline& pipeline, fs::path file) {
  if (file.empty()) file = calibration_file(pipeline);
  std::error_code ignored;
  if (file.empty() || !fs::exists(file, ignored)) return std::nullopt;
  const std::string place = file.string();
  const json document = read_json(file);
  if (get_string(document, "schema", place) != kSchema)
    fail("{}: the schema is '{}', expected {}", place, get_string(document, "schema", place), kSchema);
  std::vector<StepCalibration> calibrations;
  for (const json& calibration : array_of(document, "calibrations", place))
    calibrations.push_back(read_calibration(calibration, place));
  if (get_string(document, "weights", place) != hash_of_weights(pipeline.denoiser().checkpoint)) return std::nullopt;
  return calibrations;
}

void keep_calibration(const Pipeline& pipeline, const StepCalibration& calibration, fs::path file) {
  if (file.empty()) file = calibration_file(pipeline);
  if (file.empty()) fail("random weights have no folder to keep {} in", kCalibrationFile);
  const FileLock lock(file, FileLock::WhenTaken::kWait);  // calibrations for other requests may end at the same time
  std::vector<StepCalibration> all = read_calibrations(pipeline, file).value_or(std::vector<StepCalibration>());
  std::erase_if(all, [&](const StepCalibration& other) { return is_same(other.request, calibration.request); });
  all.push_back(calibration);
  json calibrations = json::array();
  for (const StepCalibration& one : all) calibrations.push_back(to_json(one));
  write_json(file, {{"schema", kSchema},
                    {"weights", hash_of_weights(pipeline.denoiser().checkpoint)},
                    {"calibrations", std::move(calibrations)}});
}

CalibratedSwitches with_calibration(const Pipeline& pipeline, const Request& request, const SwitchSet& switches) {
  const std::optional<std::string_view> argument = switches.argument("meancache");
  if (!argument) return {.switches = switches, .note = {}};
  const VelocityCacheOptions asked = parse_velocity_cache("meancache", *argument);
  if (!asked.schedule.empty() || asked.computed >= request.calls()) return {.switches = switches, .note = {}};
  const auto spread = [&](const std::string& reason) {
    return CalibratedSwitches{.switches = switches, .note = "the steps are spread evenly: " + reason};
  };
  if (pipeline.denoiser().checkpoint.is_random()) return spread("random weights have no calibration");
  const std::optional<std::vector<StepCalibration>> calibrations = read_calibrations(pipeline);
  if (!calibrations)
    return spread(fmt::format("there is no {} for these weights in their folder; headroom calibrate makes one",
                              kCalibrationFile));
  if (request.reference_tokens() != 0 || request.strength != 0)
    return spread(fmt::format("{} is for requests without an image", kCalibrationFile));
  const CalibratedRequest wanted = calibrated_request(pipeline, request);
  const auto found =
      std::ranges::find_if(*calibrations, [&](const StepCalibration& each) { return is_same(each.request, wanted); });
  if (found == calibrations->end()) {
    std::vector<std::string> there;
    for (const StepCalibration& each : *calibrations) there.push_back(describe(each.request));
    const std::string asked_for = describe(wanted);
    if (std::ranges::find(there, asked_for) != there.end())
      return spread(fmt::format("{} for {} is of other noise levels than the scheduler's configuration has now",
                                kCalibrationFile, asked_for));
    return spread(fmt::format("{} is for {}, not for {}", kCalibrationFile, fmt::join(there, " and for "), asked_for));
  }
  const std::string& digits = found->schedules[static_cast<std::size_t>(asked.computed - 1)].digits;
  return {.switches = switches.without("meancache")
                          .with(SwitchSet::parse(fmt::format("meancache={}:schedule={}", asked.computed, digits))),
          .note = fmt::format("the steps are those of {}: {}", kCalibrationFile, digits)};
}

}  // namespace headroom
