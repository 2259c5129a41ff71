#include "report/html.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "report/assets.hpp"

namespace headroom {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// Length of the well-formed UTF-8 sequence at the front of `text` (Unicode Standard, table 3-7); 0 where there is
/// none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto is_tail = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    return byte(i) >= low && byte(i) <= high;
  };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return is_tail(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const unsigned low = lead == 0xE0 ? 0xA0 : 0x80, high = lead == 0xED ? 0x9F : 0xBF;  // no surrogates
    return is_tail(1, low, high) && is_tail(2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const unsigned low = lead == 0xF0 ? 0x90 : 0x80, high = lead == 0xF4 ? 0x8F : 0xBF;
    return is_tail(1, low, high) && is_tail(2) && is_tail(3) ? 4 : 0;
  }
  return 0;
}

bool is_xml_character(std::string_view sequence) {
  if (sequence.size() == 1) {
    const auto c = static_cast<unsigned char>(sequence.front());
    return c >= 0x20 || c == '\t' || c == '\n' || c == '\r';
  }
  return sequence != "\xEF\xBF\xBE" && sequence != "\xEF\xBF\xBF";  // U+FFFE, U+FFFF
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
    const std::size_t length = utf8_length(text);
    const std::string_view sequence = text.substr(0, length);
    out += length > 0 && is_xml_character(sequence) ? sequence : kReplacement;
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::string cut_text(std::string_view text, std::size_t characters) {
  std::string out;
  std::string_view rest = text;
  for (std::size_t n = 0; n < characters && !rest.empty(); ++n) {
    const std::size_t length = std::max<std::size_t>(utf8_length(rest), 1);
    out += rest.substr(0, length);
    rest.remove_prefix(length);
  }
  return rest.empty() ? out : out + "…";
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
