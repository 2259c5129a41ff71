#include "pipelines/diffusion_pipeline.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "base/tensors/random.hpp"
#include "base/text/format.hpp"
#include "models/config.hpp"
#include "pipelines/schedules/sampler_update.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kMaxImages = 4096;
constexpr std::int64_t kMaxPixelsAlongSide = 16'384;
constexpr std::int64_t kMaxTextTokens = 8192;  // for a denoiser alone
constexpr std::int64_t kMaxSteps = 10'000;
constexpr double kMaxGuidance = 100;
constexpr std::string_view kReference = "reference";  // an input of the loop; further ones are numbered
constexpr std::int64_t kDecoderPixels = 8;            // along one side of a latent, in autoencoders of this field

// Random streams of one image, so that its noise does not depend on how many images are made with it.
constexpr std::uint64_t kNoiseStream = 0;
constexpr std::uint64_t kPromptStream = 1;

std::int64_t in_range(const char* what, std::int64_t value, std::int64_t high) {
  if (value < 1 || value > high) fail_usage("{} is {}, expected 1 to {}", what, value, high);
  return value;
}

/// Tokens along a side. They may follow from pixels, so an error has the range in both.
std::int64_t tokens_in_range(const char* what, std::int64_t value, std::int64_t high, std::int64_t token_pixels) {
  if (value < 1 || value > high)
    fail_usage("{} is {}, expected 1 to {}, which are {} to {} pixels", what, value, high, token_pixels,
               high * token_pixels);
  return value;
}

/// Default prompts, as for a benchmark.
std::vector<std::string> example_prompts() {
  return {"a red fox in snow", "an old lighthouse on a cliff at dusk, oil painting",
          "a bowl of ramen on a wooden table, soft light", "the word headroom written in chalk on a blackboard"};
}

/// Random prompts, numbered by the labels, for pipelines that read no text.
HostTensor random_prompts(const Shape& shape, std::span<const ImageRequest> images) {
  HostTensor rows(DType::kF32, shape);
  const std::size_t size = rows.as<float>().size() / images.size();
  for (std::size_t b = 0; b < images.size(); ++b)
    fill_normal(rows.as<float>().subspan(b * size, size), static_cast<std::uint64_t>(images[b].label), kPromptStream);
  return rows;
}

std::string reference_name(std::size_t index) {
  return index == 0 ? std::string(kReference) : fmt::format("{}_{}", kReference, index + 1);
}

/// The least strength that leaves one step, rounded up to four digits so that it can be given.
double least_strength(std::int64_t steps) { return std::ceil(1e4 / static_cast<double>(steps)) / 1e4; }

/// The given noise of an image, converted to that shape, which has as many elements.
HostTensor given_noise(const HostTensor& given, const Shape& of_one, Shape shape) {
  if (!(given.shape() == of_one) || given.dtype() != DType::kF32)
    fail_usage("the noise is {}{}, expected f32{}: the latents of an image", given.dtype(), given.shape(), of_one);
  HostTensor noise(DType::kF32, shape);
  std::ranges::copy(given.bytes(), noise.bytes().begin());
  return noise;
}

void set_forward_inputs(Session& session, const std::map<std::string, HostTensor, std::less<>>& positions) {
  constexpr std::uint64_t kForwardSeed = 0;
  const Graph& graph = session.program().graph;
  std::uint64_t stream = 0;
  for (const ValueId input : graph.values_of(ValueKind::kInput)) {
    const Value& value = graph.value(input);
    if (const auto found = positions.find(value.name); found != positions.end()) {
      session.set_input(value.name, found->second);
      continue;
    }
    HostTensor tensor(value.type.dtype, value.type.shape);
    if (value.name == "timestep")
      fill_uniform(tensor.as<float>(), kForwardSeed, stream++);
    else
      fill_normal(tensor.as<float>(), kForwardSeed, stream++);
    session.set_input(value.name, tensor);
  }
}

}  // namespace

JoinedTexts join_texts(Builder& builder, const Request& request, ValueId rows, std::int64_t channels) {
  const std::vector<std::int64_t>& lengths = request.text_lengths;
  if (std::ranges::adjacent_find(lengths, std::ranges::not_equal_to()) == lengths.end())
    return {builder.reshape(rows, {request.batch(), request.longest_text(), channels})};
  return {builder.reshape(rows, {1, builder.shape(rows)[0], channels}), lengths};
}

double number_up_to(double most, std::string_view what, double value) {
  if (!(value >= 0 && value <= most)) fail_usage("{} is {}, expected 0 to {}", what, value, most);
  return value;
}

HostTensor filled_tensor(Shape shape, double value) {
  HostTensor tensor(DType::kF32, shape);
  std::ranges::fill(tensor.as<float>(), static_cast<float>(value));
  return tensor;
}

DiffusionPipeline::DiffusionPipeline(PipelineParts parts, const DiffusionKind& kind)
    : Pipeline(std::move(parts.components)),
      folder_(std::move(parts.folder)),
      kind_(kind),
      readers_(std::move(parts.readers)),
      scheduler_(std::move(parts.scheduler)),
      defaults_(std::move(parts.defaults)),
      labels_(std::move(parts.labels)) {
  if (const auto vae = std::ranges::find(components(), "vae", &Component::part); vae != components().end())
    autoencoder_ = parse_autoencoder(vae->config);
  if (reads_text() && defaults_.prompts.empty()) defaults_.prompts = example_prompts();
}

std::int64_t DiffusionPipeline::token_pixels() const {
  if (defaults_.pixels) return defaults_.pixels->patch;
  return latents_along_token(kind_.form) * (autoencoder_ ? autoencoder_->scale : kDecoderPixels);
}

std::string DiffusionPipeline::obstacle_to_images() const {
  if (reads_text()) return {};
  return fmt::format(
      "{} is a denoiser alone, which reads no prompts and makes no pixels: give the folder that holds its "
      "pipeline's model_index.json; bench and ladder work without",
      name());
}

Request DiffusionPipeline::resolve(const RequestOptions& options) const {
  const auto pick = [](auto asked, auto own) { return asked != 0 ? asked : own; };
  const Request own = default_request();
  Request request;
  request.images = in_range("the number of images", options.images, kMaxImages);
  request.references = options.references;
  const bool has_image = !request.references.empty();
  if (request.references.size() > kind_.most_references && kind_.image_use != ImageUse::kNone)
    fail_usage("{} images are given, expected at most {} for {}", request.references.size(), kind_.most_references,
               name());
  // A denoiser alone does not record whether it was trained to edit.
  if (has_image && kind_.image_use == ImageUse::kNone && reads_text()) fail_usage("{} edits no images", name());
  const bool is_start = has_image && kind_.image_use == ImageUse::kStart;
  if (is_start && !autoencoder_) fail_usage("{} has no autoencoder, which an image to begin with takes", name());
  const std::int64_t most = kMaxPixelsAlongSide / (latents_along_token(kind_.form) * kDecoderPixels);
  request.token_rows = tokens_in_range("the number of token rows",
                                       pick(options.token_rows, is_start ? options.references[0].rows : own.token_rows),
                                       most, token_pixels());
  request.token_columns = tokens_in_range(
      "the number of token columns",
      pick(options.token_columns, is_start ? options.references[0].columns : own.token_columns), most, token_pixels());
  request.text_tokens = in_range("the number of text tokens", pick(options.text_tokens, own.text_tokens),
                                 reads_text() ? kind_.max_prompt : kMaxTextTokens);
  request.steps = in_range("the number of steps",
                           options.switches.number("steps").value_or(pick(options.steps, own.steps)), kMaxSteps);
  const std::optional<std::string_view> named = options.switches.argument("sampler");
  const std::optional<SamplerChoice> choice = named ? std::optional(parse_sampler(*named)) : std::nullopt;
  resolve_sampler(choice, request);
  if (kind_.is_flow_map && request.sampler != Sampler::kEuler)
    fail_usage("{} is a flow map, which takes each step whole: expected sampler=euler and not sampler={}", name(),
               to_string(request.sampler));
  resolve_guidance(options, own, request);
  resolve_strength(options, own, request);
  resolve_texts(options, request);
  return request;
}

void DiffusionPipeline::resolve_texts(const RequestOptions& options, Request& request) const {
  if (kind_.pads_prompts) return;
  request.text_lengths = !options.text_lengths.empty()
                             ? options.text_lengths
                             : text_lengths(request, make_image_requests(*this, 0, request.images, 0));
  HR_CHECK_EQ(std::ssize(request.text_lengths), request.batch());
}

std::vector<std::int64_t> DiffusionPipeline::text_lengths(const Request& request,
                                                          std::span<const ImageRequest> images) const {
  if (kind_.pads_prompts) return {};
  if (!reads_text()) return std::vector<std::int64_t>(static_cast<std::size_t>(request.batch()), request.text_tokens);
  const TextReader& reader = readers_.front();
  std::vector<std::int64_t> lengths;
  for (const std::optional<std::string>& text : texts_of(*this, request, images, 0))
    lengths.push_back(reader.tokenize(text.value_or(""), request.text_tokens).numel() - reader.dropped_tokens);
  return lengths;
}

Scheduler DiffusionPipeline::scheduler(std::optional<Sampler> named) const {
  return config::read_in(folder_.empty() ? name() : folder_.string(), [&] {
    Scheduler scheduler = parse_scheduler(scheduler_, named);
    if (auto* const flow = std::get_if<FlowSchedule>(&scheduler.levels)) flow->is_by_steps = kind_.shift_is_by_steps;
    return scheduler;
  });
}

void DiffusionPipeline::resolve_sampler(const std::optional<SamplerChoice>& choice, Request& request) const {
  if (choice) {
    request.sampler = choice->sampler;
    request.shift = choice->shift;
    request.eta = choice->eta;
  } else {
    // A single pass of the denoiser or decoder needs no scheduler, so a missing one is an error only when a loop is
    // built.
    try {
      request.sampler = scheduler(std::nullopt).sampler;
    } catch (const Error& error) {
      request.obstacle_to_sampler = error.what();
      return;
    }
  }
  try {
    const NoiseSchedule schedule = scheduler(request.sampler).schedule(request.steps, request.image_tokens());
    request.added_steps = std::ssize(schedule.steps) - request.steps;
  } catch (const Error&) {
    // The number of steps need not be possible either: sampler_tables() reports that.
  }
}

/// Normalizes equivalent scales: up to unguided_scale() there is no classifier-free guidance.
void DiffusionPipeline::resolve_guidance(const RequestOptions& options, const Request& own, Request& request) const {
  request.guidance_scale =
      number_up_to(kMaxGuidance, "the guidance scale", options.guidance_scale.value_or(own.guidance_scale));
  const double own_true_cfg_scale = options.has_negative_prompt ? kind_.true_cfg_scale : 1;
  const double true_cfg_scale =
      number_up_to(kMaxGuidance, "the true CFG scale", options.true_cfg_scale.value_or(own_true_cfg_scale));
  if (is_guided_by_passes())
    request.guidance_scale = std::max(unguided_scale(), request.guidance_scale);
  else if (!kind_.embeds_guidance)
    request.guidance_scale = own.guidance_scale;
  request.true_cfg_scale =
      is_guided_by_passes() ? request.guidance_scale + (1 - unguided_scale()) : std::max(1.0, true_cfg_scale);
  request.classifier_free_guidance = reads_text() && request.true_cfg_scale > 1;
}

void DiffusionPipeline::resolve_strength(const RequestOptions& options, const Request& own, Request& request) const {
  const bool is_start = !request.references.empty() && kind_.image_use == ImageUse::kStart;
  if (!is_start && options.strength) {
    if (kind_.image_use == ImageUse::kStart)
      fail_usage("a strength of {} is for an image to begin with, and there is none", *options.strength);
    fail_usage("a strength of {} is for an image to begin with, but {} begins with noise", *options.strength, name());
  }
  if (!is_start) return;
  request.strength = options.strength.value_or(own.strength);
  if (!(request.strength > 0 && request.strength <= 1))
    fail_usage("the strength is {}, expected more than 0 to 1", request.strength);
  if (request.taken_steps() == 0)
    fail_usage("a strength of {} leaves none of {}, expected at least {}", request.strength,
               format_count(request.steps, "step"), least_strength(request.steps));
  const auto [rows, columns] = request.references.front();
  if (rows != request.token_rows || columns != request.token_columns)
    fail_usage("the image that the loop begins with is {} x {} tokens, expected {} x {} as the one that is made", rows,
               columns, request.token_rows, request.token_columns);
}

std::vector<IdleOption> DiffusionPipeline::idle_options(const RequestOptions& options,
                                                        const ImageRequest& image) const {
  std::vector<IdleOption> idle;
  const Request request = resolve(options);
  if (const auto steps = options.switches.number("steps"); steps && options.steps != 0 && options.steps != *steps)
    idle.push_back({"steps", fmt::format("the switch steps={} takes its place", *steps)});
  if (options.guidance_scale && !kind_.embeds_guidance && !is_guided_by_passes())
    idle.push_back({"guidance", fmt::format("{} has no guidance scale", name())});
  if (options.true_cfg_scale && is_guided_by_passes())
    idle.push_back({"true_cfg_scale", fmt::format("the guidance of {} is classifier-free already", name())});
  if (options.true_cfg_scale && !reads_text())
    idle.push_back({"true_cfg_scale", fmt::format("{} is a denoiser alone, which reads no text", name())});
  if (image.prompt_2 && readers_.size() < 2)
    idle.push_back({"prompt_2", fmt::format("{} has no second text encoder", name())});
  if ((image.negative_prompt || image.negative_prompt_2) && !request.classifier_free_guidance)
    idle.push_back({"negative_prompt",
                    kind_.is_guided_by_passes
                        ? fmt::format("at a guidance scale of {} there is no classifier-free guidance, which takes "
                                      "more than {}",
                                      options.guidance_scale.value_or(request.guidance_scale), unguided_scale())
                        : std::string("classifier-free guidance takes a true CFG scale of more than 1")});
  return idle;
}

Shape DiffusionPipeline::latents_of(const Request& request) const {
  return latents_shape(kind_.form, kind_.channels, request.token_rows, request.token_columns);
}

SamplerTables DiffusionPipeline::sampler_tables(const Request& request) const {
  if (!request.obstacle_to_sampler.empty()) fail("{}", request.obstacle_to_sampler);
  Scheduler scheduler = this->scheduler(request.sampler);
  if (request.shift) scheduler.set_shift(*request.shift);
  if (request.eta) scheduler.set_eta(*request.eta);
  return scheduler.tables(request.steps, request.image_tokens(), request.steps - request.taken_steps());
}

std::optional<Pipeline::ImageCoder> DiffusionPipeline::encoder() const {
  if (!autoencoder_) return std::nullopt;
  const Component& vae = component("vae");
  const auto build = [this, &vae](const Request& request, const TokenSize& size) {
    std::optional<NoiseLevel> level;
    if (request.strength != 0) level = sampler_tables(request).first;
    return build_image_encode(*autoencoder_, kind_.form, size.rows, size.columns, level, vae.params());
  };
  const auto set_inputs = [](Session& session, const ImageRequest& image) {
    const Graph& graph = session.program().graph;
    const ValueId noise = graph.find(ValueKind::kInput, "noise");
    if (noise == kNoValue) return;
    const Shape& shape = graph.type(noise).shape;
    if (image.noise.numel() != 0)
      session.set_input("noise", given_noise(image.noise, Shape(shape.dims().subspan(1)), shape));
    else
      session.set_input_normal("noise", {.seed = image.seed, .stream = kNoiseStream});
  };
  return ImageCoder{
      .component = &vae, .build = build, .set_inputs = set_inputs, .overflows_f16 = kind_.vae_overflows_f16};
}

std::optional<Pipeline::ImageCoder> DiffusionPipeline::decoder() const {
  if (!autoencoder_) return std::nullopt;
  const Component& vae = component("vae");
  const auto build = [this, &vae](const Request& /*request*/, const TokenSize& size) {
    return build_image_decode(*autoencoder_, kind_.form, size.rows, size.columns, vae.params());
  };
  return ImageCoder{.component = &vae, .build = build, .overflows_f16 = kind_.vae_overflows_f16};
}

ValueId DiffusionPipeline::add_references(Builder& builder, const Request& request) const {
  std::vector<ValueId> references;
  for (std::size_t i = 0; i < request.references.size(); ++i)
    references.push_back(builder.graph().add_input(
        reference_name(i), TensorType{.shape = {request.images, request.references[i].tokens(), kind_.channels}}));
  if (references.size() < 2) return references.empty() ? kNoValue : references.front();
  return builder.concat(references, 1);
}

Predict DiffusionPipeline::beside_references(Builder& builder, const Request& request, ValueId references,
                                             Predict predict) {
  if (references == kNoValue) return predict;
  if (request.classifier_free_guidance) references = builder.concat({references, references}, 0);
  return [references, tokens = request.image_tokens(), predict = std::move(predict)](Builder& b, ValueId latents,
                                                                                     ValueId timestep, ValueId step) {
    const ValueId both = [&] {
      const auto scope = b.scope("sampler");
      return b.concat({latents, references}, 1);
    }();
    const ValueId velocity = predict(b, both, timestep, step);  // [batch, tokens, channels]
    const auto scope = b.scope("guidance");
    return b.slice(velocity, 1, 0, tokens);
  };
}

std::vector<TokenInput> DiffusionPipeline::reference_inputs(const Request& request) {
  std::vector<TokenInput> inputs;
  for (std::size_t i = 0; i < request.references.size(); ++i) inputs.push_back({reference_name(i), 1});
  return inputs;
}

ForwardPass DiffusionPipeline::pass_over_tokens(const Request& request, std::int64_t text_tokens,
                                                std::function<Graph(const RequestSize& size)> build,
                                                Positions positions) const {
  nlohmann::json subject = {{"pass", "forward"},
                            {"batch", request.images},
                            {"image_tokens", request.image_tokens()},
                            {"text_tokens", text_tokens}};
  if (!request.references.empty()) subject["reference_tokens"] = request.reference_tokens();
  return {
      .component = &denoiser(),
      .request = std::move(subject),
      .size = {.images = request.images,
               .token_rows = request.token_rows,
               .token_columns = request.token_columns,
               .token_pixels = token_pixels()},
      .build = std::move(build),
      .set_inputs = [positions = std::move(positions)](Session& session) { set_forward_inputs(session, positions); }};
}

Graph DiffusionPipeline::build_denoise(const Request& request) const {
  Graph graph{std::string(kind_.loop)};
  Builder builder(graph);
  std::vector<ValueId> texts;
  for (const TextInput& text : text_inputs(request))
    texts.push_back(graph.add_input(text.name, TensorType{.shape = text.shape}));
  const Predict predict = add_denoiser(builder, request, texts);
  build_denoise_loop(builder, request, sampler_tables(request), latents_of(request), predict, kind_.guidance);
  return graph;
}

void DiffusionPipeline::set_request_inputs(Session& denoise, const Request& request) const {
  set_denoiser_inputs(denoise, request);
  const SamplerTables sampler = sampler_tables(request);
  HostTensor timesteps(DType::kF32, {sampler.calls(), request.batch()});
  for (std::int64_t i = 0; i < timesteps.numel(); ++i)
    timesteps.set(i, sampler.timesteps[static_cast<std::size_t>(i / request.batch())] / kind_.timestep_unit);
  denoise.set_input("timesteps", timesteps);
  if (kind_.is_flow_map) {  // the timestep of the next step, and 0 after the last
    HostTensor targets(DType::kF32, timesteps.shape());
    for (std::int64_t i = request.batch(); i < timesteps.numel(); ++i)
      targets.set(i - request.batch(), timesteps.at(i));
    denoise.set_input(kTargetTimesteps, targets);
  }
  set_sampler_inputs(denoise, sampler);
  if (!request.classifier_free_guidance) return;
  const Shape of_one = latents_of(request);
  Shape scale{1};
  for (int axis = 0; axis < of_one.rank(); ++axis) scale.push_back(1);
  denoise.set_input("guidance_scale", filled_tensor(scale, request.true_cfg_scale));
}

void DiffusionPipeline::set_texts(Session& denoise, const Request& request, std::span<const ImageRequest> images,
                                  const Conditioning& conditioning) const {
  for (std::size_t reader = 0; reader < readers_.size(); ++reader)
    for (std::size_t part = 0; part < readers_[reader].readings.size(); ++part) {
      std::int64_t index = 0;
      for (const Conditioning::Text& text : conditioning.texts[reader]) {
        denoise.set_input_part(readers_[reader].readings[part].input, index, *text[part]);
        index += text[part]->shape[0];
      }
    }
  if (reads_text()) return;
  for (const TextInput& text : text_inputs(request)) denoise.set_input(text.name, random_prompts(text.shape, images));
}

void DiffusionPipeline::set_noise(Session& denoise, const Request& request,
                                  std::span<const ImageRequest> images) const {
  const auto scale = static_cast<float>(sampler_tables(request).noise_scale);
  const bool is_given = std::ranges::any_of(images, [](const ImageRequest& image) { return image.noise.numel() != 0; });
  if (!is_given) {
    for (std::size_t i = 0; i < images.size(); ++i)
      denoise.set_state_normal("latents", static_cast<std::int64_t>(i),
                               {.seed = images[i].seed, .stream = kNoiseStream, .deviation = scale});
    return;
  }
  const Shape of_one = latents_of(request);
  HostTensor latents(DType::kF32, with_batch(request.images, of_one));
  const auto size = static_cast<std::size_t>(of_one.numel());
  for (std::size_t i = 0; i < images.size(); ++i) {
    const std::span<float> row = latents.as<float>().subspan(i * size, size);
    if (images[i].noise.numel() == 0)
      fill_normal(row, images[i].seed, kNoiseStream);
    else
      std::ranges::copy(given_noise(images[i].noise, of_one, of_one).as<float>(), row.begin());
    for (float& value : row) value *= scale;
  }
  denoise.set_state("latents", latents);
}

void DiffusionPipeline::set_image_inputs(Session& denoise, const Request& request, std::span<const ImageRequest> images,
                                         const Conditioning& conditioning) const {
  set_texts(denoise, request, images, conditioning);
  std::vector<std::uint64_t> seeds;
  for (const ImageRequest& image : images) seeds.push_back(image.seed);
  start_sampler(denoise, seeds);
  const std::vector<Conditioning::Part>& references = conditioning.references;
  if (request.strength == 0) {
    const std::size_t of_one = request.references.size();  // of each image in turn
    for (std::size_t i = 0; i < references.size(); ++i)
      denoise.set_input_part(reference_name(i % of_one), static_cast<std::int64_t>(i / of_one), *references[i]);
    return set_noise(denoise, request, images);
  }
  for (std::size_t i = 0; i < references.size(); ++i)
    denoise.set_state_part("latents", static_cast<std::int64_t>(i), *references[i]);
}

HostTensor DiffusionPipeline::decode(const HostTensor& latents, const Request& request) const {
  if (!defaults_.pixels) return Pipeline::decode(latents, request);
  PixelFormat format = *defaults_.pixels;
  format.height = request.token_rows * format.patch;
  format.width = request.token_columns * format.patch;
  return unpatch(latents, format);
}

std::unique_ptr<ClassifierJudge> DiffusionPipeline::open_judge(Backend& cpu) const {
  if (has_random_weights() || labels_.empty()) return Pipeline::open_judge(cpu);
  return ClassifierJudge::open(folder_, cpu);
}

}  // namespace headroom
