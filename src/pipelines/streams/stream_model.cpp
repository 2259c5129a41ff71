#include "pipelines/streams/stream_model.hpp"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/tensors/random.hpp"
#include "models/unets/live_stream_unet.hpp"
#include "pipelines/streams/diffusion_stream.hpp"
#include "pipelines/streams/live_stream.hpp"

namespace headroom {

SimilarityFilter parse_similarity(std::string_view argument) {
  SimilarityFilter filter;
  const std::size_t colon = argument.find(':');
  const std::string_view threshold = argument.substr(0, colon);
  const auto read = [](std::string_view text, auto& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
  };
  bool is_known = read(threshold, filter.threshold) && filter.threshold > 0 && filter.threshold < 1;
  if (colon != std::string_view::npos)
    is_known = is_known && read(argument.substr(colon + 1), filter.most_in_row) && filter.most_in_row >= 1 &&
               filter.most_in_row <= 1'000'000;
  if (!is_known)
    fail_usage("similarity={}: expected a cosine between 0 and 1, and behind a colon the most frames in a row: 0.98:10",
               argument);
  return filter;
}

std::vector<IdleOption> StreamModel::idle_options(const StreamOptions& options) const {
  std::vector<IdleOption> idle;
  if (const auto steps = options.switches.number("steps"); steps && options.steps != 0 && options.steps != *steps)
    idle.push_back({"steps", fmt::format("the switch steps={} takes its place", *steps)});
  return idle;
}

void resolve_filter(const StreamOptions& options, StreamRequest& request) {
  if (const std::optional<std::string_view> argument = options.switches.argument(kSimilarity)) {
    request.is_filtered = true;
    request.filter = parse_similarity(*argument);
  }
  if (options.similarity) {
    if (!(*options.similarity >= 0 && *options.similarity < 1))
      fail_usage("the similarity is {}, expected 0 to less than 1", *options.similarity);
    request.filter.threshold = *options.similarity;
  }
  request.seed = request.filter.seed = options.seed;
}

ForwardPass frame_pass(std::shared_ptr<const StreamModel> model, const StreamOptions& options) {
  const StreamRequest request = model->resolve(options);
  nlohmann::json work = {{"pass", "frame"},
                         {"batch", 1},
                         {"height", request.size.height},
                         {"width", request.size.width},
                         {"steps", request.steps}};
  if (request.is_batched) work["frames_under_way"] = request.steps;
  const auto set_inputs = [model, request](Session& session) {
    set_random_inputs(model->denoiser(), session);
    model->set_inputs(session, request);
    const Graph& graph = session.program().graph;
    HostTensor pixels(DType::kU8, graph.type(graph.find(ValueKind::kInput, kFramePixels)).shape);
    std::vector<float> numbers(static_cast<std::size_t>(pixels.numel()));
    fill_uniform(numbers, 0, 0);
    for (std::size_t i = 0; i < numbers.size(); ++i)
      pixels.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(255 * numbers[i]);
    session.set_input(kFramePixels, pixels);
    model->start(session, request, pixels);
  };
  return {.component = &model->denoiser(),
          .request = std::move(work),
          .size = {},
          .build = [model, request](const RequestSize& /*size*/) { return model->build_frame(request); },
          .set_inputs = set_inputs,
          .is_stream_frame = true,
          .fresh_inputs = std::vector<std::string>{kFramePixels}};
}

std::unique_ptr<StreamModel> make_stream_model(const Pipeline& pipeline) {
  if (const auto* const diffusion = dynamic_cast<const DiffusionPipeline*>(&pipeline))
    return make_diffusion_stream(*diffusion);
  fail_usage("{} cannot be streamed: a Stable Diffusion or a {} can", pipeline.name(), live_stream_unet_class().name);
}

bool is_stream_network(const Component& network) { return network.kind->name == live_stream_unet_class().name; }

std::unique_ptr<StreamModel> make_stream_model(const Component& network) {
  if (is_stream_network(network)) return make_live_stream(network);
  fail_usage("{} ({}) cannot be streamed: a Stable Diffusion or a {} can", network.name, network.kind->name,
             live_stream_unet_class().name);
}

}  // namespace headroom
