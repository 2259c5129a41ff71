#include "report/advice/advice_command.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "report/image_size.hpp"
#include "report/render/html.hpp"
#include "report/work.hpp"
#include "run/component.hpp"

namespace headroom {
namespace {

bool has_random_weights(const Candidate& candidate) {
  const std::vector<std::string>& tags = candidate.measurement->result->tags;
  return std::ranges::find(tags, "random_weights") != tags.end();
}

std::string pass_name_of(const Candidate& candidate) {
  const nlohmann::json& request = candidate.scenario->subject.request;
  const auto pass = request.find("pass");
  return pass != request.end() && pass->is_string() ? pass->get<std::string>() : "";
}

bool is_judged_by_a_teacher(const Dataset& dataset, const Subject& stream) {
  return std::ranges::any_of(dataset.measurements(), [&](const Measurement& m) {
    return m.result->subject.kind == SubjectKind::kStream && m.result->subject.name == stream.name &&
           !m.result->quality.empty();
  });
}

/// Whether the program opens a model by the name in the result: one that ships or, with random weights, one whose
/// configuration does. Other names are those of folders, and results do not record where these are.
bool is_opened_by_name(const Candidate& candidate) {
  const std::vector<ShippedModel> models = list_shipped_models();
  const auto found = std::ranges::find(models, candidate.scenario->subject.name, &ShippedModel::name);
  return found != models.end() && (!found->folder.empty() || has_random_weights(candidate));
}

/// "--token-rows 32 --token-columns 64" of a number of tokens, as near to a square as it gets.
std::string token_options(std::string_view what, double tokens) {
  constexpr double kMostTokens = 1e9;  // limits untrusted values
  if (!(tokens >= 1 && tokens <= kMostTokens)) return {};
  const auto count = static_cast<std::int64_t>(tokens);
  auto rows = static_cast<std::int64_t>(std::sqrt(tokens));
  while (count % rows != 0) --rows;
  return fmt::format(" --{0}-rows {1} --{0}-columns {2}", what, rows, count / rows);
}

/// The size of images, in the form that every model takes.
std::string size_options(const Subject& subject) {
  if (const std::optional<ImageSize> size = image_size_of(subject))
    return fmt::format(" --height {} --width {}", size->height, size->width);
  const auto rows = request_number(subject, "token_rows"), columns = request_number(subject, "token_columns");
  if (rows && columns) return fmt::format(" --token-rows {} --token-columns {}", *rows, *columns);
  const std::optional<double> tokens = image_tokens_of(subject);
  return tokens ? token_options("token", *tokens) : "";
}

/// The options that make a command measure the candidate's work, or for its error a pass of it.
std::string work_options(std::string_view name, const Candidate& candidate, std::string_view pass) {
  const Subject& subject = candidate.scenario->subject;
  const bool is_request = pass.empty(), is_pass_of_request = !is_request && pass_name_of(candidate).empty();
  std::string options;
  const auto add = [&](std::string_view option, std::string_view key) {
    if (const std::optional<double> value = request_number(subject, std::string(key)))
      options += fmt::format(" --{} {}", option, *value);
  };
  if (name == "stream") {
    for (const char* key : {"steps", "strength", "fps"}) add(key, key);
    return subject.request.value("late", "wait") == "drop" ? options + " --drop" : options;
  }
  if (const std::optional<double> batch = batch_of(subject); is_pass_of_request)
    options += " --batch 1";  // an error is that of any batch
  else if (batch && (is_request || *batch != 1))
    options += fmt::format(" --batch {}", *batch);
  options += size_options(subject);
  if (const auto tokens = request_number(subject, "reference_tokens"); tokens && name == "bench")
    options += token_options("reference", *tokens);
  add("text-tokens", "text_tokens");
  if (is_request && name != "bench") add("steps", "steps");
  if (is_request && name == "ladder") add("guidance", "guidance_scale");
  return options;
}

/// "headroom bench taesd --random-weights 0 --pass decode --height 512 --width 512 --opt lossless", in <code>; in words
/// if the model's folder is not known.
std::string command_for_pass(std::string_view name, const Candidate& candidate, std::string_view pass,
                             std::string_view options) {
  const std::string model = escape_html(candidate.scenario->subject.name);
  const std::string work = (pass.empty() ? "" : fmt::format(" --pass {}", escape_html(pass))) +
                           escape_html(work_options(name, candidate, pass));
  if (!is_opened_by_name(candidate))
    return fmt::format("the command {} and{} {}, given the folder of {}, which the result does not name", name, work,
                       options, model);
  return fmt::format("<code>headroom {} {}{}{}{} {}</code>", name, model,
                     has_random_weights(candidate) ? " --random-weights 0" : "",
                     name == "stream" ? " --input VIDEO --out null:" : "", work, options);
}

std::string command(std::string_view name, const Candidate& candidate, std::string_view options) {
  return command_for_pass(name, candidate, pass_name_of(candidate), options);
}

/// "arena,bf16"; "baseline" if there are no switches. A pass has no ranks.
std::string switches_of(const Candidate& candidate, bool is_pass) {
  std::vector<std::string> switches = candidate.measurement->switches();
  if (is_pass) std::erase_if(switches, [](const std::string& name) { return name.starts_with("cp="); });
  return switches.empty() ? "baseline" : escape_html(fmt::format("{}", fmt::join(switches, ",")));
}

/// "--opt arena,bf16 --quality 500": the options with the candidate's switches, so that it is what the command
/// measures.
std::string with_switches(const Candidate& candidate, std::string_view options, bool is_pass = false) {
  return fmt::format("--opt {} {}", switches_of(candidate, is_pass), options);
}

/// "lossless", or "lossless,steps=4" for a frame, whose steps are a switch of the command.
std::string exact_switches(const Candidate& candidate) {
  const std::optional<double> steps = request_number(candidate.scenario->subject, "steps");
  return steps && pass_name_of(candidate) == "frame" ? fmt::format("--opt lossless,steps={}", *steps)
                                                     : "--opt lossless";
}

}  // namespace

std::string how_to_measure_quality(const Dataset& dataset, const Candidate& candidate) {
  const Subject& subject = candidate.scenario->subject;
  if (subject.kind == SubjectKind::kStream)
    return is_judged_by_a_teacher(dataset, subject)
               ? "measure it with " + command("stream", candidate, with_switches(candidate, "--quality 16"))
               : "compare frames of the video with those under <code>--opt lossless</code>";
  const bool is_random = has_random_weights(candidate);
  if (is_random && output_kind_of(candidate.measurement->result->configuration) == OutputKind::kOtherLoop)
    return "judge it with trained weights";
  if (pass_name_of(candidate).empty() && !is_random)
    return "measure it with " + command("ladder", candidate, with_switches(candidate, "--quality 500"));
  if (subject.request.contains("reference_tokens"))
    return "measure the error of a pass with <code>bench/forward_error.py</code>";
  const std::string pass = pass_name_of(candidate).empty() ? "forward" : pass_name_of(candidate);
  return "measure the error of a pass with " +
         command_for_pass("ladder", candidate, pass, with_switches(candidate, "--out error", /*is_pass=*/true));
}

std::string how_to_profile(const Candidate& candidate) {
  const Subject& subject = candidate.scenario->subject;
  if (subject.kind == SubjectKind::kStream || subject.request.contains("reference_tokens")) return "not profiled";
  return "not profiled: " + command("profile", candidate, with_switches(candidate, "--out profile.json"));
}

std::string how_to_time_exact(const Candidate& candidate) {
  const bool is_stream = candidate.scenario->subject.kind == SubjectKind::kStream;
  return command(is_stream                          ? "stream"
                 : !pass_name_of(candidate).empty() ? "bench"
                                                    : "ladder",
                 candidate, exact_switches(candidate));
}

}  // namespace headroom
