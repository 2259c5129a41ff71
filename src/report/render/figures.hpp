#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "report/chart.hpp"
#include "report/render/figure_style.hpp"

namespace headroom {

enum class ChartFormat : std::uint8_t { kPng, kHtml, kSvg, kPdf };
/// "png", as files end and options say.
[[nodiscard]] std::string_view name_of(ChartFormat format);
/// All of them, in the order of documents.
[[nodiscard]] std::span<const ChartFormat> chart_formats();

/// Told from time to time how far work has come; calls never overlap.
using ReportProgress = std::function<void(std::string_view phase, std::int64_t done, std::int64_t total)>;

/// Writes each chart into `folder` as NAME.EXTENSION in each of `formats`, on as many threads as there are processors, at
/// most 8. Equal charts give equal files, whatever the number of threads. Throws Error where a file cannot be written, or
/// a PNG, SVG or PDF is asked for on a machine without librsvg.
void write_figures(std::span<const Chart> charts, const std::filesystem::path& folder,
                   const std::set<ChartFormat>& formats, const FigureStyle& style, const ReportProgress& progress = {},
                   std::size_t most_threads = 8);

}  // namespace headroom
