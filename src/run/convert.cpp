#include "run/convert.hpp"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/files/leftovers.hpp"
#include "base/text/json.hpp"
#include "io/safetensors.hpp"
#include "ir/builder.hpp"
#include "ir/param_name.hpp"
#include "passes/pass.hpp"
#include "plan/plan.hpp"
#include "run/copy_folder.hpp"
#include "run/session/session.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWeightsFile = "diffusion_pytorch_model.safetensors";
constexpr std::string_view kWeightSuffix = ".weight";

void check_switches(const SwitchSet& switches) {
  for (const std::string& name : switches.names())
    if (name != "int8" && name != "bf16")
      fail_usage("convert: switch '{}' changes how a model runs, not its checkpoint; expected int8, or int8,bf16",
                 name);
  if (!switches.has("int8"))
    fail_usage("convert: expected --opt int8, or --opt int8,bf16, but was given '{}'", switches.to_string());
}

/// The weights that the pass int8 quantizes on a device that can run it, by name.
std::set<std::string> computed_weights(const Component& component) {
  // Large enough that every matmul has enough tokens.
  const auto tokens = component.kind->text_tokens;
  const PassSize size{
      .batch = 1, .height = 256, .width = 256, .text_tokens = tokens == nullptr ? 256 : tokens(component.config)};
  const ComponentPass& pass = component.kind->passes.front();
  Graph graph = component.build(pass, pass.shapes(component.config, size));
  (void)optimize(graph, SwitchSet::parse("int8"), {}, {.disabled = {}, .assume_capable = true});
  const std::vector<int> producers = find_producers(graph);
  std::set<std::string> names;
  for (const Node& node : graph.nodes()) {
    if (graph.type(node.results[0]).dtype != DType::kI8) continue;
    ValueId value = node.inputs[0];
    const auto producer = [&]() -> const Node* {
      const int at = producers[index_of(value)];
      return at < 0 ? nullptr : &graph.nodes()[static_cast<std::size_t>(at)];
    };
    for (const Node* made = producer(); made != nullptr && (made->op == Op::kCast || made->op == Op::kUnpackBlocks);
         made = producer())
      value = made->inputs[0];
    if (graph.value(value).kind == ValueKind::kParam) names.emplace(split_param_name(graph.value(value).name).tensor);
  }
  return names;
}

struct QuantizedRows {
  HostTensor elements;  ///< i8 [n, k]
  HostTensor scale;     ///< f32 [n]
};

/// Uses the kernel that folds weights under the switch, so that the results are equal bit for bit.
QuantizedRows quantize_rows(const HostTensor& weight, Backend& backend) {
  Graph graph("quantize");
  Builder b(graph);
  ValueId x = graph.add_input("weight", {weight.dtype(), weight.shape()});
  if (weight.dtype() != DType::kBF16) x = b.cast(x, DType::kF32);
  const auto [elements, scale] = b.quantize(x);
  graph.add_output("elements", elements);
  graph.add_output("scale", scale);
  Session session(std::make_shared<Program>(plan(graph, backend.properties().target, {.arena = true})), backend);
  session.set_input("weight", weight);
  session.run();
  return {session.output("elements"), session.output("scale")};
}

/// Whether the conversion writes its own version of the file.
bool is_replaced(const std::string& name) {
  return name == "config.json" || name.ends_with(".gguf") || name.ends_with(".safetensors.index.json") ||
         (name.ends_with(".safetensors") && (name.starts_with("diffusion_pytorch_model") || name.starts_with("model")));
}

/// "blocks.0.ff" of "blocks.0.ff.weight"
std::string module_of(const std::string& weight) {
  return weight.substr(0, weight.size() - (weight.ends_with(kWeightSuffix) ? kWeightSuffix.size() : 0));
}

nlohmann::json quantization_config(const Conversion& conversion) {
  return {{"quant_method", "headroom"},
          {"weights", {{"dtype", "int8"}, {"scale", "weight_scale"}, {"granularity", "row"}, {"symmetric", true}}},
          {"activations", {{"dtype", "int8"}, {"granularity", "token"}, {"dynamic", true}}},
          {"computed_modules", conversion.computed},
          {"stored_modules", conversion.stored}};
}

class Converter {
 public:
  Converter(const Component& component, Backend& backend, bool to_bf16)
      : component_(component), backend_(backend), to_bf16_(to_bf16) {
    const std::set<std::string> computed = computed_weights(component);
    for (const TensorSpec& tensor : component.checkpoint.tensors()) {
      if (!is_float(tensor.dtype)) fail("{} is quantized already: {} is {}", component.name, tensor.name, tensor.dtype);
      result_.fp32_bytes += static_cast<std::uint64_t>(tensor.shape.numel()) * size_of(DType::kF32);
      const bool is_computed = computed.contains(tensor.name);
      if (is_computed) result_.computed.push_back(module_of(tensor.name));
      const bool is_stored =
          !is_computed && component.kind->is_modulation != nullptr && component.kind->is_modulation(tensor.name);
      if (is_stored) result_.stored.push_back(module_of(tensor.name));
      if (is_computed || is_stored) {
        quantized_.insert(tensor.name);
        written_.push_back({tensor.name, DType::kI8, tensor.shape});
        written_.push_back({scale_name(tensor.name), DType::kF32, Shape{tensor.shape[0]}});
      } else {
        written_.push_back({tensor.name, to_bf16_ ? DType::kBF16 : tensor.dtype, tensor.shape});
      }
    }
    if (result_.computed.empty()) fail("{} has no product large enough for int8", component.name);
    for (const TensorSpec& tensor : written_) result_.bytes += tensor.size_bytes();
  }

  void write(const fs::path& path, const std::function<void(std::size_t, std::size_t)>& observer) {
    SafetensorsWriter writer(path, written_, {{"format", "pt"}});
    std::size_t done = 0;
    for (const TensorSpec& tensor : component_.checkpoint.tensors()) {
      HostTensor values = component_.checkpoint.read(tensor.name);
      component_.checkpoint.release(tensor.name);
      if (quantized_.contains(tensor.name)) {
        const QuantizedRows rows = quantize_rows(values, backend_);
        writer.write(tensor.name, rows.elements.bytes());
        writer.write(scale_name(tensor.name), rows.scale.bytes());
      } else {
        if (to_bf16_) values = convert(values, DType::kBF16);
        writer.write(tensor.name, values.bytes());
      }
      if (observer) observer(++done, component_.checkpoint.tensors().size());
    }
    writer.commit();
  }

  [[nodiscard]] const Conversion& result() const noexcept { return result_; }

 private:
  static std::string scale_name(const std::string& weight) { return weight + "_scale"; }

  const Component& component_;
  Backend& backend_;
  bool to_bf16_;
  std::set<std::string> quantized_;
  std::vector<TensorSpec> written_;
  Conversion result_;
};

}  // namespace

Conversion convert_checkpoint(const Component& component, Backend& backend, const SwitchSet& switches,
                              const fs::path& out, const fs::path& pipeline,
                              const std::function<void(std::size_t done, std::size_t total)>& observer) {
  check_switches(switches);
  Converter converter(component, backend, switches.has("bf16"));
  try {
    if (fs::exists(fs::symlink_status(out))) fail("{} exists already; convert writes a new folder", out.native());
    PartialFolder folder(out);
    fs::path own = folder.path();
    const fs::path& source = component.checkpoint.folder();
    if (!pipeline.empty()) {
      const FolderCopy files(pipeline, folder.path());
      files.copy(pipeline, own, [&](const std::string& name) { return name == component.part; });
      own /= component.part;
      fs::create_directories(own);
      if (!source.empty()) files.copy(source, own, is_replaced);
    } else if (!source.empty()) {
      FolderCopy(source, folder.path()).copy(source, own, is_replaced);
    }
    converter.write(own / kWeightsFile, observer);
    nlohmann::json config = component.checkpoint.config();
    config["quantization_config"] = quantization_config(converter.result());
    write_json(own / "config.json", config);
    folder.commit();
  } catch (const fs::filesystem_error& error) {
    fail("cannot write {}: {}", out.native(), reason_not_written(error.code().value(), out, 0));
  }
  return converter.result();
}

}  // namespace headroom
