#include "cli/live/request_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace headroom {
namespace {

constexpr std::array<std::pair<std::string_view, LiveResource>, 8> kResources = {{
    {"/", LiveResource::kPage},
    {"/live.js", LiveResource::kScript},
    {"/live.css", LiveResource::kStyle},
    {"/icon.svg", LiveResource::kIcon},
    {"/status", LiveResource::kStatus},
    {"/input.mjpeg", LiveResource::kInput},
    {"/output.mjpeg", LiveResource::kOutput},
    {"/controls", LiveResource::kControls},
}};

/// Repeated headers are ambiguous, so these may occur only once.
constexpr std::array<std::string_view, 8> kOnce = {"host",           "origin",         "content-type",
                                                   "content-length", "sec-fetch-site", "sec-fetch-mode",
                                                   "sec-fetch-dest", kTokenHeader};

std::optional<std::string_view> field(const RequestHead& request, std::string_view name) {
  const auto found = request.header_fields.find(name);
  if (found == request.header_fields.end()) return std::nullopt;
  return found->second;
}

std::optional<Refusal> check_sender(const RequestHead& request, const LiveAddress& bound, LiveResource resource) {
  const std::optional<std::string_view> host = field(request, "host");
  if (!host || !is_own_host(*host, bound))
    return Refusal{403,
                   fmt::format("This page is to be found by its address, http://{}, or by the name localhost alone.",
                               authority_of(bound))};
  if (const auto origin = field(request, "origin"); origin && *origin != fmt::format("http://{}", *host))
    return Refusal{403, "Pages of another origin get nothing here."};
  // Headers set by the browser, which a page cannot forge.
  const auto site = field(request, "sec-fetch-site");
  const bool is_from_elsewhere = site && *site != "same-origin" && *site != "none";
  const bool is_a_link = resource == LiveResource::kPage && field(request, "sec-fetch-mode") == "navigate" &&
                         field(request, "sec-fetch-dest") == "document";
  if (is_from_elsewhere && !is_a_link) return Refusal{403, "Pages of another site get nothing here."};
  return std::nullopt;
}

std::optional<Refusal> check_body(const RequestHead& request) {
  if (request.header_fields.contains("transfer-encoding"))
    return Refusal{411, "A body in chunks is not taken: send Content-Length."};
  if (request.header_fields.contains("content-encoding"))
    return Refusal{415, "A body that is compressed is not taken."};
  const std::optional<std::string_view> text = field(request, "content-length");
  if (!text) return Refusal{411, "The request has no Content-Length."};
  std::size_t bytes = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), bytes);
  if (error == std::errc::invalid_argument || end != text->data() + text->size())
    return Refusal{400, "Content-Length is no number."};
  if (error != std::errc{} || bytes > kMostBodyBytes)
    return Refusal{413, fmt::format("The body is larger than {} bytes.", kMostBodyBytes)};
  return std::nullopt;
}

bool is_json(std::string_view content_type) {
  const std::string_view type = content_type.substr(0, content_type.find(';'));
  return type == "application/json";
}

std::optional<Refusal> check_change(const RequestHead& request, std::string_view token) {
  if (!request.header_fields.contains("origin"))
    return Refusal{403, "A change must say by the header Origin which page it comes from."};
  if (field(request, kTokenHeader) != token) return Refusal{403, "The page is of an earlier run: load it again."};
  if (const auto type = field(request, "content-type"); !type || !is_json(*type))
    return Refusal{415, "Content-Type must be application/json."};
  return check_body(request);
}

}  // namespace

std::optional<LiveResource> find_resource(std::string_view path) {
  const auto found = std::ranges::find(kResources, path, &std::pair<std::string_view, LiveResource>::first);
  if (found == kResources.end()) return std::nullopt;
  return found->second;
}

std::optional<Refusal> check_request(const RequestHead& request, const LiveAddress& bound, std::string_view token) {
  for (const std::string_view name : kOnce)
    if (request.header_fields.count(name) > 1)
      return Refusal{400, fmt::format("The request has the header {} more than once.", name)};
  const std::optional<LiveResource> resource = find_resource(request.path);
  if (!resource) return Refusal{404, "There is nothing here; the page is at /."};
  if (std::optional<Refusal> refusal = check_sender(request, bound, *resource)) return refusal;
  const bool is_change = *resource == LiveResource::kControls;
  if (request.method != (is_change ? "POST" : "GET"))
    return Refusal{405, is_change ? "Only POST is answered here." : "Only GET is answered here."};
  return is_change ? check_change(request, token) : std::nullopt;
}

}  // namespace headroom
