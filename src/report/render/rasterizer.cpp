#include "report/render/rasterizer.hpp"

#include <cairo-pdf.h>
#include <dlfcn.h>
#include <librsvg/rsvg.h>
#include <sys/resource.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <memory>

#include "backends/cpu/memory_limits.hpp"
#include "base/error.hpp"

namespace headroom {
namespace {

/// Addresses of the called functions, with the types from their headers.
struct Libraries {
// NOLINTNEXTLINE(bugprone-macro-parentheses): the name that is declared
#define HR_FUNCTION(library, name) decltype(&::name) name = nullptr;
#include "report/render/rasterizer_functions.def"
#undef HR_FUNCTION
  std::string missing;  ///< why they cannot be used; empty if they can
};

void* open_library(const char* soname, std::string& missing) {
  void* library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr && missing.empty())
    missing = std::string("charts as PNG, SVG or PDF need librsvg and cairo, and ") + soname +
              " cannot be opened (Debian has them in librsvg2-2); --format html needs neither";
  return library;
}

template <typename Function>
void load(void* library, const char* name, Function& function, std::string& missing) {
  if (library == nullptr) return;
  function = reinterpret_cast<Function>(dlsym(library, name));  // NOLINT: what dlsym is for
  if (function == nullptr && missing.empty())
    missing = std::string("charts as PNG, SVG or PDF need librsvg 2.46 or later, and this machine's lacks ") + name;
}

Libraries open_libraries() {
  Libraries l;
  void* const rsvg = open_library("librsvg-2.so.2", l.missing);
  void* const cairo = open_library("libcairo.so.2", l.missing);
  void* const gobject = open_library("libgobject-2.0.so.0", l.missing);
  void* const glib = open_library("libglib-2.0.so.0", l.missing);
#define HR_FUNCTION(library, name) load(library, #name, l.name, l.missing);
#include "report/render/rasterizer_functions.def"
#undef HR_FUNCTION
  return l;
}

/// Opened once and never closed, since the libraries keep global state.
const Libraries& libraries() {
  static const Libraries opened = open_libraries();
  if (!opened.missing.empty()) fail("{}", opened.missing);
  return opened;
}

/// A cairo surface and its context.
class Canvas {
 public:
  /// A canvas of pixels.
  Canvas(int width, int height)
      : Canvas(libraries().cairo_image_surface_create(CAIRO_FORMAT_ARGB32, width, height),
               fmt::format("an image of {}x{} pixels", width, height)) {}
  /// Takes ownership of `surface`; `what` names it in an error.
  Canvas(cairo_surface_t* surface, const std::string& what)
      : l_(libraries()),
        surface_(surface, l_.cairo_surface_destroy),
        context_(l_.cairo_create(surface_.get()), l_.cairo_destroy) {
    const cairo_status_t status = l_.cairo_surface_status(surface_.get());
    if (status != CAIRO_STATUS_SUCCESS) fail("{} cannot be made: {}", what, l_.cairo_status_to_string(status));
  }
  [[nodiscard]] cairo_surface_t* surface() const { return surface_.get(); }
  [[nodiscard]] cairo_t* context() const { return context_.get(); }

 private:
  const Libraries& l_;
  std::unique_ptr<cairo_surface_t, void (*)(cairo_surface_t*)> surface_;
  std::unique_ptr<cairo_t, void (*)(cairo_t*)> context_;
};

/// Size in pixels of "bold 12px sans-serif"; default 12.
double size_of_font(std::string_view css_font) {
  const std::size_t end = css_font.find("px");
  if (end == std::string_view::npos) return 12;
  const std::size_t blank = css_font.rfind(' ', end);
  const std::size_t begin = blank == std::string_view::npos ? 0 : blank + 1;
  double size = 12;
  std::from_chars(css_font.data() + begin, css_font.data() + end, size);
  return size;
}

/// Draws `svg` scaled to `width` times `height` units of the canvas.
void draw_svg(const Canvas& canvas, std::string_view svg, double width, double height) {
  const Libraries& l = libraries();
  const auto complain = [&](GError* error) {
    const std::string message = error != nullptr ? error->message : "unknown error";
    if (error != nullptr) l.g_error_free(error);
    fail("a chart's SVG cannot be drawn: {}", message);
  };
  GError* error = nullptr;
  const auto* bytes = reinterpret_cast<const guint8*>(svg.data());  // NOLINT: its bytes
  const std::unique_ptr<RsvgHandle, void (*)(gpointer)> handle(l.rsvg_handle_new_from_data(bytes, svg.size(), &error),
                                                               l.g_object_unref);
  if (!handle) complain(error);
  const RsvgRectangle viewport{.x = 0, .y = 0, .width = width, .height = height};
  if (l.rsvg_handle_render_document(handle.get(), canvas.context(), &viewport, &error) == 0) complain(error);
}

cairo_status_t append_bytes(void* text, const unsigned char* bytes, unsigned int count) {
  try {
    static_cast<std::string*>(text)->append(reinterpret_cast<const char*>(bytes), count);  // NOLINT: its bytes
    return CAIRO_STATUS_SUCCESS;
  } catch (const std::bad_alloc&) {  // no C++ exception may cross cairo's frames
    return CAIRO_STATUS_NO_MEMORY;
  }
}

/// Widths of texts in the chart font. Cached, because creating a canvas and finding the font take far longer than
/// measuring.
class TextMeasure {
 public:
  TextMeasure() : l_(libraries()), canvas_(1, 1) {
    const std::unique_ptr<cairo_font_options_t, void (*)(cairo_font_options_t*)> options(l_.cairo_font_options_create(),
                                                                                         l_.cairo_font_options_destroy);
    l_.cairo_font_options_set_hint_metrics(options.get(), CAIRO_HINT_METRICS_OFF);
    l_.cairo_set_font_options(canvas_.context(), options.get());
  }

  double width(std::string_view text, std::string_view css_font) {
    if (css_font != css_font_) {
      css_font_ = css_font;
      const bool bold = css_font.find("bold") != std::string_view::npos;
      l_.cairo_select_font_face(canvas_.context(), std::string(kChartFont).c_str(), CAIRO_FONT_SLANT_NORMAL,
                                bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
      l_.cairo_set_font_size(canvas_.context(), size_of_font(css_font));
    }
    cairo_text_extents_t extents;
    l_.cairo_text_extents(canvas_.context(), std::string(text).c_str(), &extents);
    return extents.x_advance;
  }

 private:
  const Libraries& l_;
  Canvas canvas_;
  std::string css_font_;
};

}  // namespace

void require_rasterizer() {
  // librsvg and its dependencies abort the process if they get no memory or no thread, whose stacks have this size.
  constexpr std::size_t kRoom = std::size_t{512} << 20, kThreads = 8;
  struct rlimit stack {};
  const bool is_known = getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur != RLIM_INFINITY;
  require_room(kRoom + (is_known ? kThreads * stack.rlim_cur : 0), "drawing charts as PNG, SVG or PDF");
  (void)libraries();
}

Image rasterize(std::string_view svg, int width, int height, double scale) {
  const Libraries& l = libraries();
  Image image{.width = static_cast<int>(std::lround(width * scale)),
              .height = static_cast<int>(std::lround(height * scale)),
              .channels = 3,
              .pixels = {}};
  const Canvas canvas(image.width, image.height);
  l.cairo_set_source_rgb(canvas.context(), 1, 1, 1);
  l.cairo_paint(canvas.context());
  l.cairo_scale(canvas.context(), scale, scale);
  draw_svg(canvas, svg, width, height);
  l.cairo_surface_flush(canvas.surface());

  const unsigned char* data = l.cairo_image_surface_get_data(canvas.surface());
  const int stride = l.cairo_image_surface_get_stride(canvas.surface());
  image.pixels.resize(static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.height) * 3);
  std::uint8_t* out = image.pixels.data();
  for (int y = 0; y < image.height; ++y) {
    const unsigned char* row = data + static_cast<std::ptrdiff_t>(y) * stride;
    for (int x = 0; x < image.width; ++x, row += 4) {  // blue, green, red, alpha; opaque, so not premultiplied
      *out++ = row[2];
      *out++ = row[1];
      *out++ = row[0];
    }
  }
  return image;
}

std::string svg_to_pdf(std::string_view svg, int width, int height, double scale, const std::string& title) {
  constexpr double kPointsPerPixel = 0.75;
  const Libraries& l = libraries();
  const double points_wide = width * scale * kPointsPerPixel, points_high = height * scale * kPointsPerPixel;
  std::string pdf;
  const Canvas canvas(l.cairo_pdf_surface_create_for_stream(append_bytes, &pdf, points_wide, points_high), "a PDF");
  // An empty date is omitted; without this call the date would be the creation time of the surface.
  l.cairo_pdf_surface_set_metadata(canvas.surface(), CAIRO_PDF_METADATA_CREATE_DATE, "");
  l.cairo_pdf_surface_set_metadata(canvas.surface(), CAIRO_PDF_METADATA_TITLE, title.c_str());
  draw_svg(canvas, svg, points_wide, points_high);
  l.cairo_surface_finish(canvas.surface());
  const cairo_status_t status = l.cairo_surface_status(canvas.surface());
  if (status != CAIRO_STATUS_SUCCESS) fail("a chart's PDF cannot be written: {}", l.cairo_status_to_string(status));
  return pdf;
}

double text_width(std::string_view text, std::string_view css_font) {
  static thread_local TextMeasure measure;
  return measure.width(text, css_font);
}

}  // namespace headroom
