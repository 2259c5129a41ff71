#include "report/html.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "base/utf8.hpp"
#include "report/assets.hpp"

namespace headroom {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// Whether XML 1.0 may hold the character (section 2.2).
bool is_xml_character(const Utf8Character& character) {
  const char32_t code = character.code;
  return character.is_valid && (code >= 0x20 || code == '\t' || code == '\n' || code == '\r') && code != 0xFFFE &&
         code != 0xFFFF;
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string name_html(std::string_view name) {
  std::string out = "<bdi>";
  for (const char c : escape_html(name)) {
    out += c;
    if (c == '+') out += "<wbr>";
  }
  return out + "</bdi>";
}

std::string script_json(const nlohmann::json& value) {
  std::string out;
  for (const char c : dump_json(value)) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
  return out;
}

std::string clean_xml(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Character first = first_character(text);
    out += is_xml_character(first) ? text.substr(0, first.bytes) : kReplacement;
    text.remove_prefix(first.bytes);
  }
  return out;
}

std::string cut_text(std::string_view text, std::size_t characters) {
  std::string out;
  std::string_view rest = text;
  for (std::size_t n = 0; n < characters && !rest.empty(); ++n) {
    const std::size_t bytes = first_character(rest).bytes;
    out += rest.substr(0, bytes);
    rest.remove_prefix(bytes);
  }
  return rest.empty() ? out : out + "…";
}

std::string encode_base64(std::string_view bytes) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k)
      bits = bits << 8U | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k) out += i + k > bytes.size() ? '=' : kAlphabet[bits >> (18 - 6 * k) & 0x3FU];
  }
  return out;
}

std::string make_page(std::string_view title, std::string_view body) {
  return clean_xml(
      fmt::format("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                  "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                  "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src "
                  "'unsafe-inline'; style-src "
                  "'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'\">\n"
                  "<meta name=\"color-scheme\" content=\"light "
                  "dark\">\n<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n{}\n"
                  "<script>\n{}\n</script>\n<script>\n{}\n{}</script>\n</body>\n</html>\n",
                  escape_html(title), page_css(), body, echarts_js(), charts_js(), page_js()));
}

std::string chart_figure(const Chart& chart, int heading_level) {
  std::string notes;
  for (const std::string& note : chart.notes) notes += fmt::format("<li>{}</li>", escape_html(note));
  if (!notes.empty()) notes = fmt::format("<ul class=\"notes\">{}</ul>", notes);
  return fmt::format(
      "<figure class=\"chart\" id=\"{0}\">\n<h{1}>{2}</h{1}>\n<p class=\"subtitle\">{3}</p>\n"
      "<div class=\"plot\" role=\"img\" aria-label=\"{2}. The values are listed below.\" "
      "style=\"height:{4}px\"></div>\n"
      "<details class=\"values\"><summary>Exact values</summary></details>\n<figcaption>{5}</figcaption>\n"
      "<script type=\"application/json\">{6}</script>\n</figure>\n",
      escape_html(chart.file), heading_level, escape_html(chart.title), escape_html(chart.subtitle), chart.height,
      notes, script_json(chart.option));
}

std::string chart_page(const Chart& chart) {
  return make_page(chart.title, fmt::format("<main>\n{}</main>", chart_figure(chart, 1)));
}

}  // namespace headroom
