#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "doctor/finding.hpp"
#include "doctor/machine_facts.hpp"
#include "doctor/model_facts.hpp"
#include "measure/tables/printout.hpp"

namespace headroom::doctor {

/// What `headroom doctor` prints.
struct Report {
  std::vector<Fact> facts;
  std::optional<ModelFacts> model = {};
  std::vector<Finding> findings;
};

/// The findings, and above them the facts, for a terminal.
[[nodiscard]] Printout to_printout(const Report& report);
/// Schema headroom.doctor/1 (docs/doctor.schema.json).
[[nodiscard]] nlohmann::ordered_json to_json(const Report& report);

}  // namespace headroom::doctor
