#include "report/render/figures.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/first_failure.hpp"
#include "media/png.hpp"
#include "report/render/html.hpp"
#include "report/render/rasterizer.hpp"
#include "report/render/renderer.hpp"

namespace headroom {
namespace {

constexpr std::array kFormats = {ChartFormat::kPng, ChartFormat::kHtml, ChartFormat::kSvg, ChartFormat::kPdf};

/// Writes a chart in every format. Each thread has its own renderer, created at first use.
class FigureWriter {
 public:
  FigureWriter(const std::filesystem::path& folder, const std::set<ChartFormat>& formats, const FigureStyle& style)
      : folder_(folder), formats_(formats), style_(style) {}

  /// Creates the renderer if one is needed. This is the step that allocates memory.
  void prepare() {
    if (!renderer_ && (has(ChartFormat::kSvg) || has(ChartFormat::kPng) || has(ChartFormat::kPdf))) renderer_.emplace();
  }

  void write(const Chart& chart) {
    const auto path = [&](ChartFormat format) { return folder_ / fmt::format("{}.{}", chart.file, name_of(format)); };
    if (has(ChartFormat::kHtml)) write_file_atomically(path(ChartFormat::kHtml), chart_page(chart));
    prepare();
    if (!renderer_) return;
    const std::string svg = renderer_->to_svg(chart, style_);
    if (has(ChartFormat::kSvg)) write_file_atomically(path(ChartFormat::kSvg), svg);
    const SvgSize size = size_of_svg(svg);
    const double scale = layout_of(chart, style_).scale;
    if (has(ChartFormat::kPng))
      write_png(path(ChartFormat::kPng), rasterize(svg, size.width, size.height, scale * png_scale(style_)));
    if (has(ChartFormat::kPdf))
      write_file_atomically(path(ChartFormat::kPdf), svg_to_pdf(svg, size.width, size.height, scale, chart.title));
  }

 private:
  [[nodiscard]] bool has(ChartFormat format) const { return formats_.contains(format); }

  const std::filesystem::path& folder_;
  const std::set<ChartFormat>& formats_;
  const FigureStyle& style_;
  std::optional<ChartRenderer> renderer_;
};

}  // namespace

std::string_view name_of(ChartFormat format) {
  switch (format) {
    case ChartFormat::kPng:
      return "png";
    case ChartFormat::kHtml:
      return "html";
    case ChartFormat::kSvg:
      return "svg";
    case ChartFormat::kPdf:
      return "pdf";
  }
  HR_CHECK(false);
  return {};
}

std::span<const ChartFormat> chart_formats() { return kFormats; }

void write_figures(std::span<const Chart> charts, const std::filesystem::path& folder,
                   const std::set<ChartFormat>& formats, const FigureStyle& style, const ReportProgress& progress,
                   std::size_t most_threads) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::int64_t done = 0;
  FirstFailure failure;
  const auto tell = [&](std::int64_t finished) {
    if (!progress) return;
    const std::scoped_lock lock(mutex);
    progress("drawing charts", done += finished, std::ssize(charts));
  };
  const auto work = [&](bool is_helper) {
    failure.guard([&] {
      FigureWriter writer(folder, formats, style);
      try {
        writer.prepare();
      } catch (const Error&) {
        if (is_helper) return;  // not enough memory for another renderer: the existing threads do all charts
        throw;
      }
      for (std::size_t i = next++; i < charts.size(); i = next++) {
        try {
          writer.write(charts[i]);
        } catch (...) {
          next = charts.size();  // stops the other threads
          throw;
        }
        tell(1);
      }
    });
  };
  if (charts.empty()) return;
  require_rasterizer();  // before there are threads: glibc crashes where the first allocation of one finds no memory
  tell(0);
  const std::size_t processors = std::max<std::size_t>(std::thread::hardware_concurrency(), 1);
  const std::size_t wanted = std::min({processors, most_threads, charts.size()});
  std::vector<std::jthread> threads;
  try {
    for (std::size_t i = 1; i < wanted; ++i) threads.emplace_back(work, true);
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): the existing threads do all charts
  }
  work(false);
  threads.clear();
  failure.rethrow();
}

}  // namespace headroom
