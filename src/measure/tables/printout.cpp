#include "measure/tables/printout.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/text/markdown.hpp"
#include "base/text/printable.hpp"

namespace headroom {
namespace {

/// Applies `format_line` to each line that is not empty.
std::string each_line(std::string_view text, auto format_line) {
  std::string lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (const std::string_view line = text.substr(0, end); line.find_first_not_of(' ') != std::string_view::npos)
      lines += format_line(line.substr(line.find_first_not_of(' ')));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string remark_text(const std::string& remark, TableFormat format, std::size_t width) {
  if (format == TableFormat::kText) return width == Table::kAnyWidth ? remark : wrap_text(remark, width);
  if (format == TableFormat::kMarkdown)
    return each_line(remark, [](std::string_view line) { return "\n" + markdown_text(line) + "\n"; });
  return each_line(remark, [](std::string_view line) { return "% " + printable_name(line) + "\n"; });
}

std::string table_text(const Table& table, TableFormat format, std::size_t width, std::string_view all_are_in) {
  if (format == TableFormat::kText) return table.render(width, all_are_in);
  return format == TableFormat::kMarkdown ? table.to_markdown() : table.to_latex();
}

}  // namespace

std::optional<TableFormat> parse_table_format(std::string_view name) {
  if (name == "text") return TableFormat::kText;
  if (name == "csv") return TableFormat::kCsv;
  if (name == "md" || name == "markdown") return TableFormat::kMarkdown;
  if (name == "latex") return TableFormat::kLatex;
  return std::nullopt;
}

std::string_view suffix_of(TableFormat format) {
  constexpr std::string_view kSuffixes[] = {".txt", ".csv", ".md", ".tex"};
  return kSuffixes[static_cast<std::size_t>(format)];
}

std::string Printout::to_string(TableFormat format, std::size_t width, std::string_view all_are_in) const {
  if (format == TableFormat::kCsv) {
    if (csv_) return csv_->to_csv();
    const auto first =
        std::ranges::find_if(parts_, [](const auto& part) { return std::holds_alternative<Table>(part); });
    HR_CHECK(first != parts_.end());
    return std::get<Table>(*first).to_csv();
  }
  std::string text;
  bool begins_table = false;
  for (const auto& part : parts_) {
    const Table* const table = std::get_if<Table>(&part);
    if (table != nullptr && begins_table && format != TableFormat::kText) text += "\n";
    begins_table = true;
    text += table == nullptr ? remark_text(std::get<std::string>(part), format, width)
                             : table_text(*table, format, width, all_are_in);
  }
  if (format == TableFormat::kMarkdown && text.starts_with('\n')) text.erase(0, 1);  // for a remark at the beginning
  return text;
}

}  // namespace headroom
