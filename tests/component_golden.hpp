#pragma once

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>

#include "backends/backend.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "io/safetensors.hpp"
#include "ir/interpreter.hpp"
#include "run/compile.hpp"
#include "run/component.hpp"
#include "run/session/session.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {

/// A component's folder in tests/goldens, with weights and a golden.safetensors: inputs of its passes, outputs in
/// double precision, and the error of PyTorch in 16 bits (`decoded_bf16_error`).
class ComponentGolden {
 public:
  ComponentGolden(const std::string& folder, DeviceKind device)
      : component_(open_component((source_dir(kSourceDir) / "tests/goldens" / folder).string())),
        golden_(SafetensorsFile::open(component_.folder / "golden.safetensors")),
        backend_(make_backend(device)),
        weights_(*backend_, component_.checkpoint) {}

  [[nodiscard]] const Component& component() const { return component_; }
  [[nodiscard]] const SafetensorsFile& golden() const { return golden_; }
  [[nodiscard]] Backend& backend() { return *backend_; }
  [[nodiscard]] WeightStore& weights() { return weights_; }

  /// Relative L2 errors of a pass: the root mean square over its outputs.
  struct Errors {
    double ours = 0, pytorch = 0;
  };
  /// The errors on the device, and of PyTorch in "bf16" or "fp16".
  [[nodiscard]] Errors run(const std::string& pass_name, const std::string& switches,
                           const std::string& dtype = "bf16") {
    const Compiled compiled = compile(graph(pass_name), SwitchSet::parse(switches), backend_->properties().target);
    Session session(compiled.program, weights_, *backend_);
    for (const ValueId input : compiled.program->graph.values_of(ValueKind::kInput)) {
      const Value& value = compiled.program->graph.value(input);
      session.set_input(value.name, convert(input_of(value.name), value.type.dtype));
    }
    for (int i = 0; i < 3; ++i) session.run();  // with `graph` the second is recorded and the third replayed
    return errors_of(compiled.program->graph, pass_name, dtype,
                     [&](const std::string& output) { return session.output(output); });
  }

  /// The error of the interpreter, in double precision.
  [[nodiscard]] double interpreted(const std::string& pass_name) const {
    const Graph plain = graph(pass_name);
    NamedTensors inputs, params;
    for (const ValueId input : plain.values_of(ValueKind::kInput))
      inputs.emplace(plain.value(input).name, convert(input_of(plain.value(input).name), plain.type(input).dtype));
    for (const ValueId param : plain.values_of(ValueKind::kParam))
      params.emplace(plain.value(param).name, component_.checkpoint.read(plain.value(param).name));
    const OracleResult result = interpret(plain, inputs, params);
    return errors_of(plain, pass_name, "bf16", [&](const std::string& output) { return result.outputs.at(output); })
        .ours;
  }

 private:
  [[nodiscard]] Graph graph(const std::string& pass_name) const {
    const ComponentPass& pass = pass_named(*component_.kind, pass_name);
    InputShapes given;
    for (const std::string_view input : pass.inputs) given.emplace(input, input_of(std::string(input)).shape());
    return component_.build(pass, given);
  }

  /// An input whose name is also an output of another pass is stored with the suffix `_in`: `features_in`.
  [[nodiscard]] HostTensor input_of(const std::string& name) const {
    return golden_.read(golden_.has(name + "_in") ? name + "_in" : name);
  }

  template <class OutputNamed>
  [[nodiscard]] Errors errors_of(const Graph& graph, const std::string& pass_name, const std::string& dtype,
                                 const OutputNamed& output_named) const {
    const std::string suffix = pass_name.ends_with("-tiled") ? "_tiled" : "";
    const auto outputs = graph.outputs();
    Errors errors;
    for (const Output& output : outputs) {
      const std::string name = output.name + suffix, own = name + "_" + dtype + "_error";
      const double error = relative_l2(output_named(output.name), golden_.read(name));
      const double narrow = golden_.has(own) ? golden_.read(own).at(0) : 0;  // indices and counts are exact
      errors.ours += error * error / static_cast<double>(outputs.size());
      errors.pytorch += narrow * narrow / static_cast<double>(outputs.size());
    }
    return {.ours = std::sqrt(errors.ours), .pytorch = std::sqrt(errors.pytorch)};
  }

  Component component_;
  SafetensorsFile golden_;
  std::unique_ptr<Backend> backend_;
  WeightStore weights_;
};

}  // namespace headroom
