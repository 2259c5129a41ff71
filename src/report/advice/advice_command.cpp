#include "report/advice/advice_command.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/render/html.hpp"
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

/// "headroom bench taesd --random-weights 0 --pass decode --opt lossless", in <code>; in words if the model's folder is
/// not known.
std::string command(std::string_view name, const Candidate& candidate, std::string_view options) {
  const std::string model = escape_html(candidate.scenario->subject.name), pass = escape_html(pass_name_of(candidate));
  const std::string pass_option = pass.empty() ? "" : fmt::format(" --pass {}", pass);
  if (!is_opened_by_name(candidate))
    return fmt::format("the command {} and{} {}, given the folder of {}, which the result does not name", name,
                       pass_option, options, model);
  return fmt::format("<code>headroom {} {}{}{}{} {}</code>", name, model,
                     has_random_weights(candidate) ? " --random-weights 0" : "", pass_option,
                     name == "stream" ? " --input VIDEO --out null:" : "", options);
}

/// "--opt arena,bf16 --quality 500": the options with the candidate's switches, so that it is what the command
/// measures.
std::string with_switches(const Candidate& candidate, std::string_view options) {
  const std::vector<std::string>& switches = candidate.measurement->switches();
  return switches.empty()
             ? std::string(options)
             : fmt::format("--opt {} {}", escape_html(fmt::format("{}", fmt::join(switches, ","))), options);
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
  return "measure the error of a pass with " + command("bench", candidate, "--opt auto --out error.json");
}

std::string how_to_profile(const Candidate& candidate) {
  if (candidate.scenario->subject.kind == SubjectKind::kStream) return "not profiled";
  return "not profiled: " + command("profile", candidate, with_switches(candidate, "--out profile.json"));
}

std::string how_to_time_exact(const Candidate& candidate) {
  const bool is_stream = candidate.scenario->subject.kind == SubjectKind::kStream;
  return command(is_stream                          ? "stream"
                 : !pass_name_of(candidate).empty() ? "bench"
                                                    : "ladder",
                 candidate, "--opt lossless");
}

}  // namespace headroom
