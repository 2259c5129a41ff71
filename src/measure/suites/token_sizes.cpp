#include "measure/suites/token_sizes.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.hpp"
#include "pipelines/pipeline.hpp"
#include "run/component.hpp"

namespace headroom {
namespace {

/// Pixels per token of a model known to this program by name, or by its parameter count (for example FLUX.1-dev's
/// published folder). Empty if no model is known, or if the model makes no images.
std::optional<std::int64_t> known_token_pixels(const std::string& name, std::optional<std::int64_t> parameters) {
  const std::vector<ShippedModel> models = list_shipped_models();
  auto found = std::ranges::find(models, name, &ShippedModel::name);
  if (found == models.end() && parameters) found = std::ranges::find(models, *parameters, &ShippedModel::parameters);
  if (found == models.end()) return {};
  try {
    return open_pipeline(found->name, {.random_seed = 0})->token_pixels();
  } catch (const Error&) {  // a network by itself
    return {};
  }
}

}  // namespace

std::optional<double> request_number(const Subject& subject, const std::string& key) {
  const auto found = subject.request.find(key);
  if (found == subject.request.end() || !found->is_number()) return {};
  return found->get<double>();
}

std::optional<double> image_tokens_of(const Subject& subject) {
  if (const auto tokens = request_number(subject, "image_tokens")) return tokens;
  const auto rows = request_number(subject, "token_rows"), columns = request_number(subject, "token_columns");
  if (rows && columns) return *rows * *columns;
  return {};
}

void TokenSizes::add(const ResultFile& file) {
  for (const Result& result : file.results) {
    const Subject& subject = result.subject;
    if (subject.token_pixels) by_name_.emplace(subject.name, subject.token_pixels);
    if (subject.parameters) parameters_.emplace(subject.name, *subject.parameters);
  }
}

std::optional<std::int64_t> TokenSizes::of(const Subject& subject) {
  if (subject.token_pixels) return subject.token_pixels;
  if (subject.kind != SubjectKind::kModel || !image_tokens_of(subject)) return {};
  const auto [named, is_new] = by_name_.try_emplace(subject.name);
  if (is_new) {
    const auto counted = parameters_.find(subject.name);
    named->second =
        known_token_pixels(subject.name, counted == parameters_.end() ? std::nullopt : std::optional(counted->second));
  }
  return named->second;
}

}  // namespace headroom
