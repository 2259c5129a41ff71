#include "report/render/html.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text/json.hpp"
#include "base/text/utf8.hpp"
#include "report/assets.hpp"
#include "report/render/sha256.hpp"

namespace headroom {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// Whether XML 1.0 may hold the character (section 2.2).
bool is_xml_character(const Utf8Character& character) {
  const char32_t code = character.code;
  return character.is_valid && (code >= 0x20 || code == '\t' || code == '\n' || code == '\r') && code != 0xFFFE &&
         code != 0xFFFF;
}

/// Elements that run scripts, and their sources for a Content-Security-Policy. Any other script, such as an event
/// handler in an attribute, does not run.
struct Scripts {
  std::string elements;
  std::string sources;
};

/// Scripts inside the page itself, allowed by their hashes.
Scripts inline_scripts(std::initializer_list<std::string> texts) {
  Scripts scripts;
  for (const std::string& text : texts) {
    const std::string seen = clean_xml(text);  // as it will be in the document
    const auto digest = sha256(seen);
    scripts.elements += fmt::format("<script>{}</script>", seen);
    scripts.sources += fmt::format("{}'sha256-{}'", scripts.sources.empty() ? "" : " ",
                                   encode_base64({reinterpret_cast<const char*>(digest.data()), digest.size()}));
  }
  return scripts;
}

std::string document(std::string_view title, std::string_view body, const Scripts& scripts) {
  return clean_xml(fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src {}; style-src "
      "'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<style>\n{}</style>\n</head>\n"
      "<body>\n{}\n{}\n</body>\n</html>\n",
      scripts.sources, escape_html(title), page_css(), body, scripts.elements));
}

/// A separator of phrases in a name: ", ", "; " or ": " outside brackets, from `begin` to `end`.
struct Separator {
  std::size_t begin, end;
};
std::vector<Separator> separators_of(std::string_view name) {
  std::vector<Separator> separators;
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    depth += name[i] == '(' ? 1 : name[i] == ')' ? -1 : 0;
    if (depth == 0 && std::string_view(",;:").find(name[i]) != std::string_view::npos && i + 1 < name.size() &&
        name[i + 1] == ' ')
      separators.push_back({i, i + 2});
  }
  return separators;
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

namespace {

/// The first `head` characters of a longer text and the last, `characters` in all, with an ellipsis between them.
std::string without_middle(std::string_view text, std::size_t head, std::size_t characters) {
  std::vector<std::string_view> parts;  // one character each
  for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(parts.back().size()))
    parts.push_back(rest.substr(0, first_character(rest).bytes));
  const std::size_t tail = std::min(characters - head, parts.size() - head);
  return fmt::format("{}…{}", fmt::join(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(head), ""),
                     fmt::join(parts.end() - static_cast<std::ptrdiff_t>(tail), parts.end(), ""));
}

}  // namespace

std::vector<std::string> cut_names(const std::vector<std::string>& names, std::size_t characters) {
  std::map<std::string, std::set<std::string>> alike;  // by what is left of them
  for (const std::string& name : names) alike[cut_text(name, characters)].insert(name);
  // Names may differ near the middle: the first share of their beginning that tells all apart is taken.
  std::vector<std::string> cut;
  for (const std::size_t head : {characters / 3, characters / 2, characters * 2 / 3}) {
    cut.clear();
    std::map<std::string, std::set<std::string>> still_alike;
    for (const std::string& name : names) {
      cut.push_back(cut_text(name, characters));
      if (alike.at(cut.back()).size() > 1) cut.back() = without_middle(name, head, characters);
      still_alike[cut.back()].insert(name);
    }
    if (std::ranges::all_of(still_alike, [](const auto& one) { return one.second.size() == 1; })) break;
  }
  return cut;
}

std::vector<std::string> without_what_all_share(std::vector<std::string> names) {
  if (names.size() < 2) return names;
  const std::string& first = names.front();
  std::size_t head = first.size(), tail = head;
  for (const std::string& name : names) {
    head = std::min<std::size_t>(head, std::ranges::mismatch(first, name).in1 - first.begin());
    const auto last = std::mismatch(first.rbegin(), first.rend(), name.rbegin(), name.rend());
    tail = std::min<std::size_t>(tail, last.first - first.rbegin());
  }
  const std::vector<Separator> separators = separators_of(first);
  std::size_t begin = 0, end = 0;  // bytes of the common prefix and suffix
  for (const Separator& separator : separators) {
    if (separator.end <= head) begin = separator.end;
    if (end == 0 && first.size() - separator.begin <= tail) end = first.size() - separator.begin;
  }
  const auto is_too_short = [&](const std::string& name) { return name.size() <= begin + end; };
  if (std::ranges::any_of(names, is_too_short)) end = 0;
  if (std::ranges::any_of(names, is_too_short)) return names;
  for (std::string& name : names) name = name.substr(begin, name.size() - begin - end);
  return names;
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

std::string page_script() { return fmt::format("{}\n{}\n{}", echarts_js(), charts_js(), page_js()); }

std::string make_page(std::string_view title, std::string_view body) {
  return document(title, body,
                  inline_scripts({std::string(echarts_js()), fmt::format("\n{}\n{}", charts_js(), page_js())}));
}

std::string chart_figure(const Chart& chart, int heading_level) {
  std::string notes;
  for (const std::string& note : chart.notes) notes += fmt::format("<li>{}</li>", escape_html(note));
  if (!notes.empty()) notes = fmt::format("<ul class=\"notes\">{}</ul>", notes);
  return fmt::format(
      "<figure class=\"chart\" id=\"{0}\">\n<h{1}>{2}</h{1}>\n<p class=\"subtitle\">{3}</p>\n"
      "<div class=\"frame\"><div class=\"plot\" role=\"img\" aria-label=\"{2}. The values are listed below.\" "
      "style=\"height:{4}px\"></div></div>\n"
      "<details class=\"values\"><summary>Exact values</summary></details>\n<figcaption>{5}</figcaption>\n"
      "<script type=\"application/json\">{6}</script>\n</figure>\n",
      escape_html(chart.file), heading_level, escape_html(chart.title), escape_html(chart.subtitle), chart.height,
      notes, script_json(chart.option));
}

std::string chart_page(const Chart& chart) {
  // For a page on disk, 'self' is a file in some browsers and nothing in others.
  return document(
      chart.title,
      fmt::format(
          "<main>\n{}<noscript>The chart is drawn by {}, which is in the same folder as this page.</noscript></main>",
          chart_figure(chart, 1), kScriptFile),
      {.elements = fmt::format("<script src=\"{}\"></script>", kScriptFile), .sources = "'self' file:"});
}

}  // namespace headroom
