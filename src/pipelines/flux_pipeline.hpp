#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/autoencoder.hpp"
#include "models/flux.hpp"
#include "pipelines/flux_parts.hpp"
#include "pipelines/pipeline.hpp"
#include "pipelines/sampler_tables.hpp"

namespace headroom {

/// FLUX.1 (Black Forest Labs, 2024) : dev, schnell, Kontext, and transformers that work on pixels. A
/// transformer alone runs on random prompts, and makes latents.
class FluxPipeline final : public Pipeline {
 public:
  explicit FluxPipeline(FluxParts parts);

  [[nodiscard]] std::int64_t token_pixels() const override;
  [[nodiscard]] std::span<const std::string> labels() const override { return labels_; }
  [[nodiscard]] std::span<const std::string> prompts() const override { return defaults_.prompts; }
  [[nodiscard]] std::string obstacle_to_images() const override;
  [[nodiscard]] bool edits_images() const override { return is_kontext_; }
  [[nodiscard]] ImageSize reference_size(const ImageSize& image) const override;
  [[nodiscard]] ImageSize output_size(const ImageSize& asked) const override;

  [[nodiscard]] Request resolve(const RequestOptions& options) const override;
  [[nodiscard]] ForwardPass forward_pass(const Request& request) const override;
  [[nodiscard]] std::span<const TextReader> text_readers() const override { return readers_; }
  [[nodiscard]] std::optional<ImageCoder> encoder() const override;
  [[nodiscard]] std::optional<ImageCoder> decoder() const override;
  [[nodiscard]] Graph build_denoise(const Request& request) const override;

  void set_request_inputs(Session& denoise, const Request& request) const override;
  void set_image_inputs(Session& denoise, const Request& request, std::span<const ImageRequest> images,
                        const Conditioning& conditioning) const override;
  [[nodiscard]] HostTensor decode(const HostTensor& latents, const Request& request) const override;
  [[nodiscard]] std::unique_ptr<ClassifierJudge> open_judge(Backend& cpu) const override;

 private:
  [[nodiscard]] bool reads_text() const { return !readers_.empty(); }
  [[nodiscard]] Request default_request() const;
  [[nodiscard]] HostTensor random_prompts(const Shape& shape, std::span<const ImageRequest> images) const;
  [[nodiscard]] HostTensor noise(const Request& request, std::span<const ImageRequest> images) const;
  void fill_forward_inputs(Session& session, const Request& request) const;
  [[nodiscard]] SamplerTables sampler_tables(const Request& request) const;

  std::filesystem::path folder_;
  FluxConfig config_;
  std::vector<TextReader> readers_;
  std::optional<Autoencoder> vae_;  // of the component `vae`
  nlohmann::json scheduler_;        // of scheduler_config.json
  FluxDefaults defaults_;
  std::vector<std::string> labels_;
  bool is_kontext_;
};

/// A transformer alone.
[[nodiscard]] std::unique_ptr<Pipeline> make_flux_pipeline(Component transformer);
/// A whole pipeline: see open_flux_parts().
[[nodiscard]] std::unique_ptr<Pipeline> open_flux_pipeline(const ModelIndex& index,
                                                           std::optional<std::uint64_t> random_seed);

}  // namespace headroom
