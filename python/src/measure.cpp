#include "measure.hpp"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "networks.hpp"
#include "whole.hpp"

namespace headroom::python {

using namespace nb::literals;

namespace {

/// Text of the result file, text of the command, and warnings.
using PyReport = std::tuple<std::string, std::string, std::vector<std::string>>;

template <class Body>
PyReport report_on(const PyDevice& device, const Body& body) {
  Report report = in_turn(device, body);
  return {std::move(report.result), std::move(report.text), std::move(report.warnings)};
}

/// Tells Python of the progress, and ends the work where Ctrl-C was pressed or the callback raises.
ProgressObserver observer_of(const nb::object& callback) {
  return [&callback](std::string_view what, std::int64_t done, std::int64_t total) {
    const nb::gil_scoped_acquire with_lock;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!callback.is_none()) callback(nb::str(what.data(), what.size()), done, total);
  };
}

void bind_work(nb::module_& module) {
  nb::class_<Work>(module, "_Work")
      .def(
          "__init__",
          [](Work* self, const std::filesystem::path& model,
             OptionalWhole<std::uint64_t, "random_weights"> random_weights, const std::optional<std::string>& baseline,
             const std::string& name, Whole<std::int64_t, "batch"> batch, OptionalWhole<std::int64_t, "height"> height,
             OptionalWhole<std::int64_t, "width"> width, OptionalWhole<std::int64_t, "text_tokens"> text_tokens,
             OptionalWhole<std::int64_t, "steps"> steps, std::optional<double> guidance_scale,
             std::optional<double> true_cfg_scale) {
            new (self) Work{.model = model.string(),
                            .options = options_of(random_weights, baseline),
                            .pass = name,
                            .batch = batch,
                            .height = height,
                            .width = width,
                            .text_tokens = text_tokens,
                            .steps = steps,
                            .guidance_scale = guidance_scale,
                            .true_cfg_scale = true_cfg_scale};
          },
          "model"_a, nb::kw_only(), "random_weights"_a = nb::none(), "baseline"_a = nb::none(), "name"_a = "",
          "batch"_a = 1, "height"_a = nb::none(), "width"_a = nb::none(), "text_tokens"_a = nb::none(),
          "steps"_a = nb::none(), "guidance_scale"_a = nb::none(), "true_cfg_scale"_a = nb::none(),
          nb::sig("def __init__(self, model: str | os.PathLike[str], *, random_weights: int | None = None, "
                  "baseline: str | None = None, name: str = '', batch: int = 1, height: int | None = None, "
                  "width: int | None = None, text_tokens: int | None = None, steps: int | None = None, "
                  "guidance_scale: float | None = None, true_cfg_scale: float | None = None) -> None"));
}

}  // namespace

void bind_measure(nb::module_& module) {
  bind_work(module);
  module.def(
      "bench",
      [](const PyDevice& device, const Work& work, const std::string& optimize, Whole<int, "trials"> trials,
         double max_seconds, bool cold, bool first_step, bool floors, const nb::object& callback) {
        const BenchOptions options{
            .trials = trials, .max_seconds = max_seconds, .cold = cold, .first_step = first_step, .floors = floors};
        const ProgressObserver observer = observer_of(callback);
        return report_on(device, [&] { return bench(device.device, work, optimize, options, observer); });
      },
      "device"_a, "work"_a, "optimize"_a, "trials"_a, "max_seconds"_a, "cold"_a, "first_step"_a, "floors"_a,
      "callback"_a.none());
  module.def(
      "ladder",
      [](const PyDevice& device, const Work& work, const std::string& optimize, bool only_ends,
         Whole<std::uint64_t, "seed"> seed, Whole<int, "trials"> trials, Whole<int, "rounds"> rounds,
         Whole<int, "max_rounds"> max_rounds, bool floors, Whole<std::int64_t, "quality"> quality,
         std::vector<std::string> prompts, const nb::object& callback) {
        const LadderOptions options{.only_ends = only_ends,
                                    .seed = seed,
                                    .trials = trials,
                                    .rounds = rounds,
                                    .max_rounds = max_rounds,
                                    .floors = floors,
                                    .quality_images = quality,
                                    .prompts = std::move(prompts)};
        const ProgressObserver observer = observer_of(callback);
        return report_on(device, [&] { return ladder(device.device, work, optimize, options, observer); });
      },
      "device"_a, "work"_a, "optimize"_a, "only_ends"_a, "seed"_a, "trials"_a, "rounds"_a, "max_rounds"_a, "floors"_a,
      "quality"_a, "prompts"_a, "callback"_a.none());
  module.def(
      "plan_text",
      [](const PyDevice& device, const Work& work, const std::string& optimize, bool with_rejections) {
        return in_turn(device, [&] { return plan_text(device.device, work, optimize, with_rejections); });
      },
      "device"_a, "work"_a, "optimize"_a, "with_rejections"_a);
  module.def(
      "shipped_models",
      [] {
        nb::list result;
        for (const ShippedModel& model : shipped_models()) {
          nb::dict entry;
          entry["name"] = model.name;
          entry["description"] = model.description;
          entry["folder"] = model.folder.empty() ? nb::object(nb::none()) : nb::cast(model.folder);
          entry["parameters"] = model.parameters;
          result.append(entry);
        }
        return result;
      },
      nb::sig("def shipped_models() -> list[dict[str, typing.Any]]"));
  module.def(
      "models_in",
      [](const std::filesystem::path& folder) {
        const FoundModels found = models_in(folder.string());
        nb::list models;
        for (const FoundModel& model : found.models) {
          nb::dict entry;
          entry["folder"] = model.folder;
          entry["class_name"] = model.class_name;
          entry["parameters"] = model.parameters;
          entry["passes"] = model.passes;
          models.append(entry);
        }
        return nb::make_tuple(models, found.left_out);
      },
      "folder"_a,
      nb::sig("def models_in(folder: str | os.PathLike[str]) -> tuple[list[dict[str, typing.Any]], list[str]]"));
}

}  // namespace headroom::python
