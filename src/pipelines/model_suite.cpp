#include "pipelines/model_suite.hpp"

#include <fmt/format.h>

#include "base/text/name_filter.hpp"

namespace headroom {

std::vector<ModelCase> list_model_cases(bool with_large) {
  std::vector<ModelCase> cases = {{"fashion-flux", "batch 1", {"--batch=1"}},
                                  {"fashion-flux", "batch 20", {"--batch=20"}}};
  const auto add_random = [&](const std::string& model, int token_rows) {
    cases.push_back({model,
                     fmt::format("{}x{} tokens", token_rows, token_rows),
                     {"--random-weights=0", fmt::format("--token-rows={}", token_rows),
                      fmt::format("--token-columns={}", token_rows)}});
  };
  // Width and numbers of double and single blocks in the proportions of FLUX.1-dev, 3072x19+38. Each model has about
  // eight times the weights of the previous one.
  add_random("flux-256x2+4", 16);
  add_random("flux-512x4+8", 16);
  if (!with_large) return cases;
  for (const char* model : {"flux-1024x8+16", "flux-2048x12+24", "flux-dev"}) add_random(model, 64);
  return cases;
}

std::vector<ModelCase> filter_model_cases(std::vector<ModelCase> cases, const std::string& pattern) {
  const NameFilter filter(pattern);
  std::vector<std::string> names;
  for (const ModelCase& one : cases) names.push_back(one.name());
  filter.check_takes_any(names, "model benchmark");
  std::erase_if(cases, [&](const ModelCase& one) { return !filter.takes(one.name()); });
  return cases;
}

}  // namespace headroom
