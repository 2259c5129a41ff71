#include "measure/work/found_models.hpp"

#include <set>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "measure/work/asked_pass.hpp"
#include "pipelines/parts_source.hpp"
#include "pipelines/pipeline.hpp"
#include "run/model_folders.hpp"

namespace headroom {
namespace {

/// A whole pipeline; its parameters are added up later.
FoundComponent look_at_pipeline(const std::filesystem::path& folder) {
  FoundComponent found{
      .folder = folder, .class_name = open_parts_folder(folder)->class_name(), .parameters = {}, .passes = {}};
  if (is_pipeline_class(found.class_name)) found.passes.emplace_back(kWholeRequest);
  return found;
}

}  // namespace

std::vector<FoundComponent> find_models(const std::filesystem::path& folder, std::vector<std::string>& broken) {
  std::vector<FoundComponent> found;
  std::set<std::filesystem::path> pipelines;
  const auto look = [&](const std::filesystem::path& each, bool is_one, auto look_at) {
    if (!is_one) return;
    try {
      found.push_back(look_at(each));
    } catch (const Error& error) {
      broken.emplace_back(error.what());
    }
  };
  for (const std::filesystem::path& each : find_model_folders(folder)) {
    if (is_pipeline_folder(each)) pipelines.insert(each);
    look(each, is_pipeline_folder(each), look_at_pipeline);
    look(each, is_there(each / "config.json"), look_at_component);
  }
  if (found.empty() && !broken.empty()) fail("{}", broken.front());
  if (found.empty()) static_cast<void>(list_components(folder));  // throws an Error that says what is there instead
  for (FoundComponent& pipeline : found) {
    if (!pipelines.contains(pipeline.folder)) continue;
    for (const FoundComponent& part : found)
      if (part.folder.parent_path() == pipeline.folder && part.parameters)
        pipeline.parameters = pipeline.parameters.value_or(0) + *part.parameters;
  }
  return found;
}

}  // namespace headroom
