#include "api/impl.hpp"
#include "base/error.hpp"
#include "base/text/json.hpp"
#include "measure/work/found_models.hpp"

namespace headroom::v1 {
namespace {

InputShapes inner_shapes(const Shapes& shapes) {
  InputShapes result;
  for (const auto& [name, shape] : shapes) result.emplace(name, inner(shape));
  return result;
}

}  // namespace

headroom::DType baseline_on(const Backend& backend, const ComponentOptions& options, const Checkpoint& checkpoint) {
  if (options.baseline) {
    if (*options.baseline != DType::kF32 && *options.baseline != DType::kBF16)
      fail_usage("the baseline {} was asked for, expected f32 or bf16", name_of(*options.baseline));
    return inner(*options.baseline);
  }
  return backend.properties().target.device->keeps_precision ? checkpoint_baseline(checkpoint) : headroom::DType::kF32;
}

std::vector<ShippedModel> shipped_models() {
  return translated([] {
    std::vector<ShippedModel> models;
    for (headroom::ShippedModel& model : list_shipped_models())
      models.push_back(
          {std::move(model.name), std::move(model.description), std::move(model.folder), model.parameters});
    return models;
  });
}

FoundModels models_in(const std::string& name_or_folder) {
  return translated([&] {
    const std::filesystem::path folder = find_model_folder(name_or_folder);
    FoundModels models;
    for (FoundComponent& found :
         find_models(folder.empty() ? std::filesystem::path(name_or_folder) : folder, models.left_out))
      models.models.push_back(
          {std::move(found.folder), std::move(found.class_name), found.parameters, std::move(found.passes)});
    return models;
  });
}

Component::Impl::Impl(const Device& on, Backend& backend, headroom::Component opened)
    : device(on), network(std::move(opened)), weights(backend, network.checkpoint) {
  for (const ComponentPass& pass : network.kind->passes)
    passes.push_back({std::string(pass.name), {pass.inputs.begin(), pass.inputs.end()}});
}

Component::Component(const Device& device, const std::string& name_or_folder, const ComponentOptions& options)
    : impl_(translated([&] {
        Backend& backend = device.impl_->here();
        headroom::Component network = open_component(name_or_folder, {.random_seed = options.random_seed});
        network.baseline = baseline_on(backend, options, network.checkpoint);
        return std::make_shared<Impl>(device, backend, std::move(network));
      })) {}

Component::Component(const Device& device, NetworkInMemory network, const ComponentOptions& options)
    : impl_(translated([&] {
        Backend& backend = device.impl_->here();
        std::vector<TensorInMemory> tensors;
        for (auto& [name, view] : network.weights)
          tensors.push_back({.tensor = {.name = name, .dtype = inner(view.dtype), .shape = inner(view.shape)},
                             .bytes = view.bytes,
                             .is_on_device = network.on_device});
        FinishTensor finish;
        if (network.loaded)
          finish = [loaded = std::move(network.loaded)](const std::string& name) {
            const std::optional<TensorView> moved = loaded(name);
            return moved ? std::optional(moved->bytes) : std::nullopt;
          };
        headroom::Component opened = component_of(
            network.name,
            Checkpoint::of(parse_json(network.config, network.name), network.name,
                           tensors_in_memory(std::move(tensors), std::move(network.owner), std::move(finish))));
        opened.baseline = baseline_on(backend, options, opened.checkpoint);
        return std::make_shared<Impl>(device, backend, std::move(opened));
      })) {}

std::string Component::name() const { return impl_->network.name; }
std::string Component::class_name() const { return std::string(impl_->network.kind->name); }
const Device& Component::device() const { return impl_->device; }
const std::vector<PassInfo>& Component::passes() const { return impl_->passes; }
std::size_t Component::weight_bytes() const { return impl_->weights.bytes(); }

std::int64_t Component::parameters() const {
  return translated([&] { return impl_->network.parameters(); });
}

Shapes Component::input_shapes(std::string_view pass, const PassSize& size) const {
  return translated([&] {
    const headroom::Component& network = impl_->network;
    const headroom::PassSize asked{
        .batch = size.batch, .height = size.height, .width = size.width, .text_tokens = size.text_tokens};
    Shapes shapes;
    for (const auto& [name, shape] : pass_named(*network.kind, pass).shapes(network.config, asked))
      shapes.emplace(name, outer(shape));
    return shapes;
  });
}

CompiledPass Component::compile(std::string_view pass, const Shapes& inputs, std::string_view switches) const {
  return translated([&] {
    const DeviceTarget target = impl_->device.impl_->here().properties().target;
    const SwitchSet asked = SwitchSet::parse(switches).for_target(target);
    ForwardPass forward = make_forward_pass(impl_->network, pass_named(*impl_->network.kind, pass),
                                            inner_shapes(inputs), /*set_inputs=*/{});
    Compiled compiled = headroom::compile(forward.build(forward.size), asked, target,
                                          {.baseline = impl_->network.baseline, .outputs_apart = true});
    return CompiledPass(std::make_shared<CompiledPass::Impl>(*this, std::move(forward), asked, std::move(compiled)));
  });
}

void Component::keep_weights_of(const CompiledPass& pass) {
  translated([&] {
    (void)impl_->device.impl_->here();
    impl_->weights.keep_only(*pass.impl_->compiled.program);
  });
}

}  // namespace headroom::v1
