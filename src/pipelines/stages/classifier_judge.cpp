#include "pipelines/stages/classifier_judge.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "io/safetensors.hpp"
#include "run/compile.hpp"

namespace headroom {
namespace {

std::vector<double> read_doubles(const SafetensorsFile& file, const char* name, const Shape& shape) {
  const HostTensor tensor = convert(file.read(name), DType::kF64);
  if (!(tensor.shape() == shape))
    fail("reference_stats.safetensors: '{}' is {}, expected {}", name, tensor.shape(), shape);
  const std::span<const double> values = tensor.as<double>();
  return {values.begin(), values.end()};
}

}  // namespace

std::unique_ptr<ClassifierJudge> ClassifierJudge::open(const std::filesystem::path& model_folder, Backend& cpu) {
  const std::filesystem::path folder = model_folder / "classifier";
  if (!std::filesystem::exists(folder / "config.json"))
    fail("{} has no folder `classifier`, so its images cannot be judged", model_folder.string());
  return std::unique_ptr<ClassifierJudge>(new ClassifierJudge(folder, cpu));
}

ClassifierJudge::ClassifierJudge(const std::filesystem::path& folder, Backend& cpu)
    : checkpoint_(Checkpoint::open(folder)),
      config_(parse_classifier_config(checkpoint_.config())),
      weights_(cpu, checkpoint_) {
  const Compiled compiled = compile(build_classifier(config_, kBatch), {}, cpu.properties().target);
  session_ = std::make_unique<Session>(compiled.program, weights_, cpu);
  const SafetensorsFile stats = SafetensorsFile::open(folder / "reference_stats.safetensors");
  reference_mean_ = read_doubles(stats, "mean", {config_.feature_dim});
  reference_covariance_ = read_doubles(stats, "covariance", {config_.feature_dim, config_.feature_dim});
}

SeenImages ClassifierJudge::look_at(const HostTensor& pixels) {
  const std::int64_t count = pixels.shape()[0];
  const auto image_size = static_cast<std::size_t>(pixels.numel() / std::max<std::int64_t>(count, 1));
  const auto classes = static_cast<std::size_t>(config_.num_classes);
  const auto features = static_cast<std::size_t>(config_.feature_dim);
  SeenImages seen;
  HostTensor batch(DType::kF32, {kBatch, config_.channels, config_.height, config_.width});
  for (std::int64_t first = 0; first < count; first += kBatch) {
    const auto n = static_cast<std::size_t>(std::min(kBatch, count - first));
    const std::span<const float> from =
        pixels.as<float>().subspan(static_cast<std::size_t>(first) * image_size, n * image_size);
    std::ranges::transform(from, batch.as<float>().begin(), [](float value) { return std::clamp(value, -1.0F, 1.0F); });
    session_->set_input("images", batch);
    session_->run();
    const HostTensor found = session_->output("features");
    const std::span<const float> rows = found.as<float>().first(n * features);
    seen.features.insert(seen.features.end(), rows.begin(), rows.end());
    const HostTensor logits = session_->output("logits");
    for (std::size_t i = 0; i < n; ++i) {
      const std::span<const float> row = logits.as<float>().subspan(i * classes, classes);
      seen.labels.push_back(std::ranges::max_element(row) - row.begin());
    }
  }
  return seen;
}

}  // namespace headroom
