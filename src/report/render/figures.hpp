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
/// "png", as in file extensions and options.
[[nodiscard]] std::string_view name_of(ChartFormat format);
/// All formats, in the order used by the documentation.
[[nodiscard]] std::span<const ChartFormat> chart_formats();

/// Called from time to time with the progress; calls never overlap.
using ReportProgress = std::function<void(std::string_view phase, std::int64_t done, std::int64_t total)>;

/// Writes each chart into `folder` as NAME.EXTENSION in each of `formats`. It uses as many threads as there are
/// processors, at most 8. Equal charts give equal files for any number of threads. Throws Error if a file cannot be
/// written, or if a PNG, SVG or PDF is requested on a machine without librsvg.
void write_figures(std::span<const Chart> charts, const std::filesystem::path& folder,
                   const std::set<ChartFormat>& formats, const FigureStyle& style, const ReportProgress& progress = {},
                   std::size_t most_threads = 8);

}  // namespace headroom
