#include "train/classification.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "train/cross_entropy.hpp"
#include "train/training_config.hpp"

namespace headroom {

Classification::Classification(const TrainingConfig& config)
    : config_(config.model),
      model_(parse_classifier_config(config.model)),
      size_(config.size),
      images_(config.data.images, config.data.pad),
      order_(images_.count(), config.seed) {
  require_fit(images_, config.data.images);
  if (config.validation_data.images.images.empty()) return;
  validation_.emplace(config.validation_data.images, config.data.pad);
  require_fit(*validation_, config.validation_data.images);
}

void Classification::require_fit(const LabelledImages& images, const ImageFiles& files) const {
  if (model_.channels != 1 || model_.height != images.rows() || model_.width != images.columns())
    fail("{}: images of 1 x {} x {} with their padding, but the model takes {} x {} x {}", files.images, images.rows(),
         images.columns(), model_.channels, model_.height, model_.width);
  if (images.classes() > model_.num_classes)
    fail("{}: has the label {}, but the model's num_classes is {}", files.labels, images.classes() - 1,
         model_.num_classes);
}

Graph Classification::loss(const ParamSource& /*params*/, std::int64_t micro_batches) const {
  Graph graph("classification");
  Builder b(graph);
  const std::int64_t batch = size_.batch;
  const ValueId images = graph.add_input(
      "images", TensorType{.dtype = DType::kU8, .shape = {batch, model_.channels, model_.height, model_.width}});
  const ValueId classes = graph.add_input("classes", TensorType{.dtype = DType::kI32, .shape = {batch, 1}});
  const ValueId x = b.add_scalar(b.mul_scalar(b.cast(images, DType::kF32), 1 / 127.5), -1);
  const Graph network = build_classifier(model_, batch);
  const std::vector<ValueId> outputs = append_network(b, network, {{"images", x}});
  const auto logits = std::ranges::find(network.outputs(), "logits", &Output::name) - network.outputs().begin();
  graph.add_output("loss", cross_entropy(b, outputs[static_cast<std::size_t>(logits)], classes, micro_batches * batch));
  return graph;
}

BatchData Classification::data(std::int64_t step) const {
  std::vector<std::int64_t> samples;
  for (std::int64_t i = 0; i < size_.samples(); ++i) samples.push_back(order_.sample(step * size_.samples() + i));
  return batch_of(images_, size_.micro_batches, samples);
}

BatchData Classification::validation(std::int64_t index) const {
  std::vector<std::int64_t> samples;
  for (std::int64_t i = 0; i < size_.batch; ++i) samples.push_back((index * size_.batch + i) % validation_->count());
  return batch_of(*validation_, 1, samples);
}

BatchData Classification::batch_of(const LabelledImages& images, std::int64_t micro_batches,
                                   const std::vector<std::int64_t>& samples) const {
  const std::int64_t batch = std::ssize(samples) / micro_batches;
  const auto pixels = static_cast<std::size_t>(images.rows() * images.columns());
  HostTensor values(DType::kU8, {micro_batches, batch, 1, images.rows(), images.columns()});
  HostTensor classes(DType::kI32, {micro_batches, batch, 1});
  const std::span<std::uint8_t> bytes = values.as<std::uint8_t>();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    images.copy_patches(samples[i], 1, bytes.subspan(i * pixels, pixels));
    classes.set(static_cast<std::int64_t>(i), static_cast<double>(images.label(samples[i])));
  }
  return {.tensors = {{"images", std::move(values)}, {"classes", std::move(classes)}}};
}

nlohmann::json Classification::data_identity() const {
  return {{"images", images_.count()}, {"hash", fmt::format("{:016x}", images_.hash())}};
}

}  // namespace headroom
