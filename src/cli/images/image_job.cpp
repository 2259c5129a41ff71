#include "cli/images/image_job.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "base/text/nearest.hpp"
#include "base/text/printable.hpp"

namespace headroom {
namespace {

constexpr std::size_t kMostQuotedBytes = 60;  // of a value quoted in an error

constexpr double kMostGuidance = 100;

/// A JSON key and its member.
struct Field {
  std::string_view key;
  std::function<void(ImageJob& job, const nlohmann::json& object, const std::string& context)> read;
  std::function<void(const ImageJob& job, nlohmann::json& value)> write;  // leaves null if not set
};

/// A whole number that is 0 if not set. `low` is 1, or 0 if 0 has that meaning.
template <class Member>
Field whole_field(std::string_view key, std::int64_t low, std::int64_t high, const Member& member) {
  return {key,
          [=](ImageJob& job, const nlohmann::json& object, const std::string& context) {
            const std::int64_t value = get_int(object, key, context);
            if (value < low || value > high)
              fail_usage("{}: {} is {}, expected {} to {}", context, key, value, low, high);
            member(job) = value;
          },
          [=](const ImageJob& job, nlohmann::json& value) {
            if (ImageJob copy = job; member(copy) != 0) value = member(copy);
          }};
}

template <class Member>
Field real_field(std::string_view key, double high, const Member& member) {
  return {key,
          [=](ImageJob& job, const nlohmann::json& object, const std::string& context) {
            const double value = get_double(object, key, context);
            if (!(value >= 0 && value <= high)) fail_usage("{}: {} is {}, expected 0 to {}", context, key, value, high);
            member(job) = value;
          },
          [=](const ImageJob& job, nlohmann::json& value) {
            if (ImageJob copy = job; member(copy)) value = *member(copy);
          }};
}

template <class Member>
Field text_field(std::string_view key, const Member& member) {
  return {key,
          [=](ImageJob& job, const nlohmann::json& object, const std::string& context) {
            member(job) = get_string(object, key, context);
          },
          [=](const ImageJob& job, nlohmann::json& value) {
            if (ImageJob copy = job; !member(copy).empty()) value = member(copy);
          }};
}

/// An empty text counts as set.
template <class Member>
Field prompt_field(std::string_view key, const Member& member) {
  return {key,
          [=](ImageJob& job, const nlohmann::json& object, const std::string& context) {
            member(job) = get_string(object, key, context);
          },
          [=](const ImageJob& job, nlohmann::json& value) {
            if (ImageJob copy = job; member(copy)) value = *member(copy);
          }};
}

Field seed_field() {
  return {"seed",
          [](ImageJob& job, const nlohmann::json& object, const std::string& context) {
            const nlohmann::json& seed = object.at("seed");
            if (!seed.is_number_integer() || (!seed.is_number_unsigned() && seed.get<std::int64_t>() < 0))
              fail_usage("{}: seed is {}, expected a whole number from 0 on", context,
                         shortened(seed.dump(), kMostQuotedBytes));
            job.seed = seed.get<std::uint64_t>();
          },
          [](const ImageJob& job, nlohmann::json& value) { value = job.seed; }};
}

Field images_field() {
  return {"image",
          [](ImageJob& job, const nlohmann::json& object, const std::string& context) {
            const nlohmann::json& image = object.at("image");
            job.images.clear();
            if (!image.is_array()) {
              job.images.push_back(get_string(object, "image", context));
              return;
            }
            for (std::size_t i = 0; i < image.size(); ++i)
              if (!image[i].is_string())
                fail("\"image\" in {} is an array with {} at index {}, but names of files were expected", context,
                     shortened(image[i].dump(), kMostQuotedBytes), i);
            if (image.empty()) fail("\"image\" in {} is an empty array, but names of files were expected", context);
            job.images = image.get<std::vector<std::string>>();
          },
          [](const ImageJob& job, nlohmann::json& value) {
            if (job.images.size() == 1)
              value = job.images.front();
            else if (!job.images.empty())
              value = job.images;
          }};
}

LoraUse read_lora(const nlohmann::json& object, const std::string& context) {
  LoraUse use{.file = get_string(object, "file", context), .weight = get_double_or(object, "weight", 1, context)};
  for (const auto& [key, value] : object.items())
    if (key != "file" && key != "weight") fail_usage("{}: unknown key '{}'", context, key);
  require_lora_weight(use, context);
  return use;
}

Field loras_field() {
  return {"loras",
          [](ImageJob& job, const nlohmann::json& object, const std::string& context) {
            const nlohmann::json& loras = object.at("loras");
            const auto is_object = [](const nlohmann::json& each) { return each.is_object(); };
            if (!loras.is_array() || !std::ranges::all_of(loras, is_object))
              fail_usage("{}: loras is {}, expected a list as [{{\"file\": \"style.safetensors\", \"weight\": 0.8}}]",
                         context, shortened(loras.dump(), kMostQuotedBytes));
            job.loras.clear();
            for (const nlohmann::json& each : loras) job.loras.push_back(read_lora(each, context + ": loras"));
          },
          [](const ImageJob& job, nlohmann::json& value) {
            for (const LoraUse& use : job.loras) value.push_back({{"file", use.file}, {"weight", use.weight}});
          }};
}

const std::vector<Field>& fields() {
  static const std::vector<Field> kFields = {
      prompt_field("prompt", [](ImageJob& job) -> auto& { return job.prompt; }),
      seed_field(),
      prompt_field("prompt_2", [](ImageJob& job) -> auto& { return job.prompt_2; }),
      prompt_field("negative_prompt", [](ImageJob& job) -> auto& { return job.negative_prompt; }),
      images_field(),
      text_field("noise", [](ImageJob& job) -> auto& { return job.noise; }),
      loras_field(),
      whole_field("label", 0, 1'000'000, [](ImageJob& job) -> auto& { return job.label; }),
      whole_field("height", 1, 16'384, [](ImageJob& job) -> auto& { return job.size.height; }),
      whole_field("width", 1, 16'384, [](ImageJob& job) -> auto& { return job.size.width; }),
      whole_field("steps", 1, 10'000, [](ImageJob& job) -> auto& { return job.steps; }),
      whole_field("text_tokens", 1, 8192, [](ImageJob& job) -> auto& { return job.text_tokens; }),
      real_field("strength", 1, [](ImageJob& job) -> auto& { return job.strength; }),
      real_field("guidance", kMostGuidance, [](ImageJob& job) -> auto& { return job.guidance; }),
      real_field("true_cfg_scale", kMostGuidance, [](ImageJob& job) -> auto& { return job.true_cfg_scale; })};
  return kFields;
}

}  // namespace

nlohmann::json to_json(const ImageJob& job) {
  nlohmann::json object = nlohmann::json::object();
  for (const Field& field : fields()) {
    nlohmann::json value;
    field.write(job, value);
    if (!value.is_null()) object[field.key] = std::move(value);
  }
  return object;
}

ImageJob with_json(ImageJob job, const nlohmann::json& object, std::initializer_list<std::string_view> others,
                   const std::string& context) {
  if (!object.is_object()) fail_usage("{}: expected a JSON object, as {{\"prompt\": \"a red fox\"}}", context);
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(others, key) != others.end()) continue;
    const auto field = std::ranges::find(fields(), key, &Field::key);
    if (field == fields().end()) {
      std::vector<std::string> known(others.begin(), others.end());
      for (const Field& each : fields()) known.emplace_back(each.key);
      fail_usage("{}: unknown key '{}'{}", context, key, did_you_mean(key, known));
    }
    field->read(job, object, context);
  }
  return job;
}

void require_lora_weight(const LoraUse& use, const std::string& context) {
  constexpr double kMost = 1000;
  if (!(std::abs(use.weight) <= kMost))
    fail_usage("{}: the weight of {} is {}, expected {} to {}", context, use.file, use.weight, -kMost, kMost);
}

}  // namespace headroom
