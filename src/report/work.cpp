#include "report/work.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace headroom {
namespace {

bool has_tokens(const Subject& subject) { return image_tokens_of(subject).has_value(); }

/// ", 512x512" in pixels, ", 32x32 image tokens", or other size information.
std::string size_text(const Subject& subject) {
  const auto number = [&](const char* key) { return request_number(subject, key); };
  if (const auto width = number("width"), height = number("height"); width && height)
    return fmt::format(", {}x{}", *width, *height);
  const std::optional<std::int64_t>& pixels = subject.token_pixels;
  if (const auto rows = number("token_rows"), columns = number("token_columns"); rows && columns) {
    if (!pixels) return fmt::format(", {}x{} image tokens", *rows, *columns);
    const auto side = static_cast<double>(*pixels);
    return fmt::format(", {}x{}", *columns * side, *rows * side);
  }
  if (const auto tokens = number("image_tokens")) {
    const double side = std::round(std::sqrt(*tokens));
    std::string text = pixels && side * side == *tokens
                           ? fmt::format(", {0}x{0} ({1} token{2})", side * static_cast<double>(*pixels), *tokens,
                                         *tokens == 1 ? "" : "s")
                           : fmt::format(", {} image token{}", *tokens, *tokens == 1 ? "" : "s");
    if (const auto reference = number("reference_tokens")) text += fmt::format(" and {} of a reference", *reference);
    return text;
  }
  if (const auto tokens = number("text_tokens")) return fmt::format(", {} text tokens", *tokens);
  return {};
}

}  // namespace

std::string describe_work(const Subject& subject) {
  std::string text = subject.name;
  if (subject.kind == SubjectKind::kKernel) return text;
  text += size_text(subject);
  const auto add = [&](const std::string& key, std::string_view one, std::string_view many) {
    const std::optional<double> value = request_number(subject, key);
    if (value) text += fmt::format(", {} {}", *value, *value == 1 ? one : many);
  };
  add("images", "image at once", "images at once");
  if (const auto batch = request_number(subject, "batch"); batch && *batch != 1)
    text += fmt::format(", a batch of {}", *batch);
  add("steps", "step", "steps");
  if (const auto scale = request_number(subject, "true_cfg_scale")) text += fmt::format(", true CFG scale {}", *scale);
  add("fps", "frame a second", "frames a second");
  const auto words = [&](const char* key) {
    const auto found = subject.request.find(key);
    return found != subject.request.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  if (const auto parts = request_number(subject, "micro_batches"); parts && *parts != 1)
    text += fmt::format(", {} micro-batches", *parts);
  if (request_number(subject, "tokens")) add("tokens", "token", "tokens");
  if (const std::string precision = words("precision"); !precision.empty()) text += ", " + precision;
  if (const std::string pass = words("pass"); pass == "training step")
    text += ", one training step";
  else if (!pass.empty())
    text += fmt::format(", one {} pass", pass);
  return text;
}

std::string describe_details(const Subject& subject) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  const auto number = [&](const char* key) { return request_number(subject, key); };
  if (subject.token_pixels) {
    if (const auto rows = number("token_rows"), columns = number("token_columns"); rows && columns)
      add(fmt::format("{}x{} image tokens", *rows, *columns));
  }
  if (const auto tokens = number("text_tokens"); tokens && has_tokens(subject))
    add(fmt::format("{} text tokens", *tokens));
  if (const auto scale = number("guidance_scale")) add(fmt::format("guidance {}", *scale));
  if (const auto strength = number("strength")) add(fmt::format("strength {}", *strength));
  const auto words = [&](const char* key) -> std::string {
    const bool has = subject.request.contains(key) && subject.request[key].is_string();
    return has ? subject.request[key].get<std::string>() : "";
  };
  if (const std::string sampler = words("sampler"); !sampler.empty()) add("sampler " + sampler);
  if (const std::string late = words("late"); !late.empty())
    add(late == "wait" ? "late frames wait" : late == "drop" ? "late frames are dropped" : "late frames: " + late);
  return text;
}

bool is_size_in_pixels(const Subject& subject) {
  const std::string size = describe_size(subject);
  return !size.empty() && !size.ends_with(" tokens");
}

std::string describe_size(const Subject& subject) {
  const auto number = [&](const char* key) { return request_number(subject, key); };
  const double side = static_cast<double>(subject.token_pixels.value_or(1));
  const std::string_view unit = subject.token_pixels ? "" : " tokens";
  if (const auto width = number("width"), height = number("height"); width && height)
    return fmt::format("{}x{}", *width, *height);
  if (const auto rows = number("token_rows"), columns = number("token_columns"); rows && columns)
    return fmt::format("{}x{}{}", *columns * side, *rows * side, unit);
  const std::optional<double> tokens = number("image_tokens");
  if (!tokens) return {};
  const double root = std::round(std::sqrt(*tokens));
  if (subject.token_pixels && root * root == *tokens) return fmt::format("{0}x{0}", root * side);
  return fmt::format("{} tokens", *tokens);
}

std::string day_of(const std::string& created) { return created.substr(0, created.find('T')); }

std::optional<double> batch_of(const Subject& subject) {
  const std::optional<double> images = request_number(subject, "images");
  return images ? images : request_number(subject, "batch");
}

std::optional<double> image_area_of(const Subject& subject) {
  if (const std::optional<double> tokens = image_tokens_of(subject)) return tokens;
  const auto width = request_number(subject, "width"), height = request_number(subject, "height");
  if (width && height) return *width * *height;
  return {};
}

}  // namespace headroom
