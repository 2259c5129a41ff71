#include "measure/suites/kernel_suite.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "ir/test_cases/op_cases.hpp"
#include "ir/text/text.hpp"
#include "measure/probes/floor.hpp"
#include "measure/results/describe.hpp"

namespace headroom {
namespace {

nlohmann::json request_of(const KernelCase& one) {
  const OpSpec& spec = one.spec;
  nlohmann::json attributes = nlohmann::json::object();
  for (const auto& [name, value] : spec.attributes.all()) {
    std::string text = to_text(value);
    std::ranges::replace(text, '\n', ' ');  // of a body: a result's texts are lines
    attributes[std::string(name)] = std::move(text);
  }
  nlohmann::json request = {
      {"inputs", operand_json(spec.inputs)}, {"outputs", operand_json(spec.outputs)}, {"attributes", attributes}};
  if (one.form == OpForm::kApart) request["form"] = "apart";
  return request;
}

}  // namespace

std::vector<KernelCase> list_kernel_cases(DeviceKind device) {
  std::vector<KernelCase> cases;
  for (const OpSchema& schema : all_ops())
    for (OpCase& one : benchmark_cases(schema.op)) {
      if (one.is_for_gpus && device == DeviceKind::kCpu) continue;
      const std::string apart = one.apart.empty() ? "" : fmt::format("{}, {}", one.name, one.apart);
      cases.push_back({.name = std::move(one.name), .spec = one.spec});
      if (!apart.empty()) cases.push_back({.name = apart, .spec = std::move(one.spec), .form = OpForm::kApart});
    }
  return cases;
}

ResultFile bench_kernels(Backend& backend, const KernelBenchOptions& options, const KernelBenchObserver& on_progress,
                         const KernelBenchSkips& on_skip) {
  std::vector<SuiteCase> cases;
  for (const KernelCase& one : list_kernel_cases(backend.properties().target.device)) {
    cases.push_back({one.name, [&backend, one](MachineRates& rates) {
                       const auto run = std::make_shared<OpRun>(backend, one.spec, one.form);
                       return ReadyCase{.session = {run, &run->session()},
                                        .floor = floor_of(*run, rates),
                                        .result = describe_kernel(backend, one.name, std::string(name_of(one.spec.op)),
                                                                  request_of(one))};
                     }});
  }
  return bench_cases(backend, "kernel benchmark", std::move(cases), options, on_progress, on_skip);
}

}  // namespace headroom
