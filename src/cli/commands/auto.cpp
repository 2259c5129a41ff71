#include "cli/commands/auto.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <ranges>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/files/hash.hpp"
#include "cli/number.hpp"
#include "cli/phase_progress.hpp"
#include "cli/table_output.hpp"
#include "measure/probes/machine.hpp"
#include "measure/protocol/auto_cache.hpp"
#include "measure/results/result_records.hpp"
#include "passes/step_caches/step_cache_options.hpp"
#include "pipelines/schedules/step_calibration.hpp"

namespace headroom {
namespace {

/// A hash of the calibrations that `meancache` uses.
std::string hash_of_calibrations(const Pipeline& pipeline) {
  const std::filesystem::path file = calibration_file(pipeline);
  std::error_code ignored;
  return std::filesystem::exists(file, ignored) ? Hasher().add(read_file(file)).hex() : "";
}

/// Everything that a choice depends on.
nlohmann::json cache_key(const SwitchArguments& arguments, const SwitchSet& fixed, Backend& backend,
                         const AutoRequest& request) {
  const Target target = backend.properties().target;
  std::vector<std::string_view> names;
  for (const SwitchInfo& info : all_switches()) names.push_back(info.name);
  return {{"machine", records::machine_record().write(describe_machine())},
          {"device", name_of(target.device)},
          {"GPU", gpu_of(backend).value_or(GpuIdentity{}).name},
          {"threads", target.threads},
          {"cpu_isa", name_of(target.cpu_isa)},
          {"model", request.forward.component->name},
          {"weights", request.forward.component->checkpoint.description()},
          {"config", request.forward.component->checkpoint.config()},
          {"baseline", name_of(request.forward.component->baseline)},
          {"request", to_json(request)},
          {"fixed", fixed.to_string()},
          {"switches", names},
          {"seconds", arguments.limits.seconds},
          {"max_error", arguments.limits.max_error},
          {"max_request_error", arguments.limits.max_request_error},
          {"calibration", request.pipeline ? hash_of_calibrations(*request.pipeline) : ""}};
}

std::optional<AutoCache::Entry> find_cached(const std::optional<AutoCache>& cache, const nlohmann::json& key,
                                            const Log& log) {
  if (!cache) return std::nullopt;
  try {
    return cache->find(key);
  } catch (const Error& error) {
    log.info("auto: measuring again, because the cached choice cannot be read: {}", error.what());
    return std::nullopt;
  }
}

/// Why no loop with fewer calls of the denoiser is tried; empty if some are.
std::string why_no_cheaper_loop(const SwitchSet& fixed, const AutoRequest& request) {
  if (!request.denoise) return "it is for whole denoise loops, and this is one forward pass";
  if (has_step_cache(fixed)) return "--opt names a step cache";
  return request.pipeline->has_random_weights() ? "what random weights compute says nothing of quality" : "";
}

AutoChoice measure(Backend& backend, AutoRequest request, const SwitchSet& fixed, const AutoLimits& limits,
                   const Log& log) {
  PhaseProgress progress(log.quiet());
  RequestBench bench(backend, std::move(request), [&](std::string_view label, std::int64_t done, std::int64_t total) {
    progress.show(label, done, total);
  });
  return choose_switches(bench, fixed, limits);
}

void store(const std::optional<AutoCache>& cache, const nlohmann::json& key, const AutoCache::Entry& entry,
           const Log& log) {
  if (!cache) return log.info("auto: the choice is not kept, because neither XDG_CACHE_HOME nor HOME is set");
  try {
    cache->store(key, entry);
    log.info("auto: kept in {}", cache->file_of(key).string());
  } catch (const Error& error) {
    log.info("auto: the choice is not kept: {}", error.what());
  }
}

void show(const AutoChoice& choice, const Log& log) {
  const std::string text = fitted_text(to_table(choice), STDERR_FILENO);
  for (const auto line : std::views::split(text, '\n')) {
    const std::string_view shown(line.begin(), line.end());
    if (!shown.empty()) log.info("{}", shown);
  }
  log.info("auto chose {}", choice.switches.to_string());
}

}  // namespace

void add_auto_switches(CLI::App& command, SwitchArguments& arguments, std::string_view fallback) {
  add_switches(command, arguments, fallback, /*takes_auto=*/true);
  command.add_option("--auto-seconds", arguments.limits.seconds, "with --opt auto: stop trying after this time")
      ->check(real_number(0.1, 3600.0))
      ->capture_default_str();
  command
      .add_option("--max-error", arguments.limits.max_error,
                  "with --opt auto: largest difference of a forward pass from the baseline (relative L2), such as 5%")
      ->transform(share())
      ->type_name("SHARE")
      ->capture_default_str();
  command
      .add_option("--max-request-error", arguments.limits.max_request_error,
                  "with --opt auto: largest quality loss of a whole request by a step cache, or by another sampler "
                  "with fewer steps (model's judge, else relative L2); 0: try neither")
      ->transform(share())
      ->type_name("SHARE")
      ->capture_default_str();
  command
      .add_option(
          "--cache-schedule", arguments.schedule,
          "fixed repeating pattern of steps that the step cache among the switches computes (1) and reuses (0): "
          "10 computes every other step; results of fbcache and teacache are tagged `forced`")
      ->type_name("DIGITS");
  command.add_flag("--auto-refresh", arguments.refresh, "with --opt auto: measure again, even if a choice is cached");
  command.parse_complete_callback([&command, &arguments] {
    for (const char* option : {"--auto-seconds", "--max-error", "--max-request-error", "--auto-refresh"})
      if (command.count(option) > 0) arguments.given_for_auto.emplace_back(option);
  });
}

SwitchRequest SwitchArguments::request() const {
  return SwitchRequest::parse(schedule.empty() ? list : with_schedule(list, schedule));
}

void ChosenSwitches::describe(Configuration& configuration) const {
  configuration.asked = asked;
  configuration.auto_trials = trials;
}

ChosenSwitches choose_switches(SwitchRequest asked, const SwitchArguments& arguments, Backend& backend,
                               AutoRequest request, const Log& log) {
  asked.fixed = asked.fixed.for_target(backend.properties().target);
  if (!asked.automatic) {
    for (const std::string& option : arguments.given_for_auto)
      WithoutEffect(log, arguments).say(option + " changes nothing: it is for --opt auto");
    return {.set = asked.fixed, .asked = asked.names()};
  }
  if (request.denoise) request.denoise->switches = asked.fixed;
  if (const std::string reason = why_no_cheaper_loop(asked.fixed, request);
      arguments.limits.max_request_error > 0 && !reason.empty())
    WithoutEffect(log, arguments).say("--max-request-error changes nothing: " + reason);
  const nlohmann::json key = cache_key(arguments, asked.fixed, backend, request);
  const std::optional<AutoCache> cache = AutoCache::of_user();
  if (!arguments.refresh) {
    if (const std::optional<AutoCache::Entry> cached = find_cached(cache, key, log)) {
      log.info("auto: measured {} (--auto-refresh measures again)", cached->created);
      show(cached->choice, log);
      return {.set = cached->choice.switches, .asked = asked.names(), .trials = cached->choice.trials};
    }
  }
  log.info("auto: measuring for about {} s", arguments.limits.seconds);
  AutoChoice choice = measure(backend, std::move(request), asked.fixed, arguments.limits, log);
  show(choice, log);
  store(cache, key, {.choice = choice, .created = utc_now()}, log);
  return {.set = choice.switches, .asked = asked.names(), .trials = std::move(choice.trials)};
}

}  // namespace headroom
