#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>

#include "base/error.hpp"
#include "ir/interpret_ops.hpp"

namespace headroom::oracle {
namespace {

std::size_t extent(const OracleTensor& x, int axis) { return static_cast<std::size_t>(x.type.shape[axis]); }

/// Independent partial sums: they hide the latency of the adds and round less than one long sum.
double dot(const double* a, const double* b, std::size_t count) {
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> sums{};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  double tail = 0;
  for (; i < count; ++i) tail += a[i] * b[i];
  return std::accumulate(sums.begin(), sums.end(), tail);
}

/// out[m, n] = a[m, k] b[n, k]^T, both read along k.
void product(const double* a, const double* b, double* out, std::size_t m, std::size_t n, std::size_t k) {
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) out[i * n + j] = dot(a + i * k, b + j * k, k);
  }
}

/// Calls visit(x row, out row) for each row along the innermost axis of two tensors of one shape.
template <typename Visit>
void for_each_row(const OracleTensor& x, OracleTensor& out, Visit visit) {
  const std::size_t width = extent(x, -1);
  for (std::size_t start = 0; start < x.reals.size(); start += width) {
    visit(std::span(x.reals).subspan(start, width), std::span(out.reals).subspan(start, width));
  }
}

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

void linear(Operands in, OracleTensor& out) {
  const std::size_t k = extent(*in[1], 1);
  const std::size_t n = extent(*in[1], 0);
  const std::size_t m = in[0]->reals.size() / k;
  product(in[0]->reals.data(), in[1]->reals.data(), out.reals.data(), m, n, k);
  if (in.size() < 3) return;
  for (std::size_t i = 0; i < m * n; ++i) out.reals[i] += in[2]->reals[i % n];
}

void quantize(const OracleTensor& x, std::vector<OracleTensor>& out) {
  const DType dtype = out[0].type.dtype;
  const double largest = dtype == DType::kI8 ? 127 : 448;
  const std::size_t width = extent(x, -1);
  for (std::size_t row = 0; row < out[1].reals.size(); ++row) {
    const std::span<const double> values = std::span(x.reals).subspan(row * width, width);
    double peak = 0;
    for (const double value : values) peak = std::fabs(value) <= peak || std::isnan(peak) ? peak : std::fabs(value);
    const bool is_zeros = peak < 0x1p-100;
    const double inverse = is_zeros || !std::isfinite(peak) ? 0 : round_to(DType::kF32, largest / peak);
    out[1].reals[row] = is_zeros ? 1 : round_to(DType::kF32, peak / largest);
    for (std::size_t i = row * width; i < (row + 1) * width; ++i) {
      const double scaled = std::isfinite(peak) ? round_to(DType::kF32, x.reals[i] * inverse) : 0;
      if (dtype == DType::kI8)
        out[0].integers[i] = static_cast<std::int64_t>(round_to(dtype, scaled));
      else
        out[0].reals[i] = round_to(dtype, scaled);
    }
  }
}

void matmul(const Attributes& attributes, Operands in, OracleTensor& out) {
  const bool transposed = attributes.get_int("transpose_b") != 0;
  const std::size_t m = extent(out, -2);
  const std::size_t n = extent(out, -1);
  const std::size_t k = extent(*in[0], -1);
  const std::size_t batch = out.reals.size() / (m * n);
  std::vector<double> b(n * k);  // [n, k]
  for (std::size_t i = 0; i < batch; ++i) {
    const double* source = in[1]->reals.data() + i * n * k;
    for (std::size_t j = 0; j < n * k; ++j) b[j] = transposed ? source[j] : source[j % k * n + j / k];
    product(in[0]->reals.data() + i * m * k, b.data(), out.reals.data() + i * m * n, m, n, k);
  }
}

void softmax(const OracleTensor& x, OracleTensor& out) {
  for_each_row(x, out, [](std::span<const double> row, std::span<double> result) {
    const double largest = *std::ranges::max_element(row);
    std::ranges::transform(row, result.begin(), [largest](double value) { return std::exp(value - largest); });
    const double sum = std::accumulate(result.begin(), result.end(), 0.0);
    for (double& value : result) value /= sum;
  });
}

void layer_norm(const Attributes& attributes, const OracleTensor& x, OracleTensor& out) {
  const double eps = attributes.get_float("eps");
  for_each_row(x, out, [eps](std::span<const double> row, std::span<double> result) {
    const double mean = mean_of(row);
    std::ranges::transform(row, result.begin(), [mean](double value) { return value - mean; });
    const double variance = dot(result.data(), result.data(), result.size()) / static_cast<double>(result.size());
    for (double& value : result) value /= std::sqrt(variance + eps);
  });
}

void rms_norm(const Attributes& attributes, Operands in, OracleTensor& out) {
  const double eps = attributes.get_float("eps");
  const std::vector<double>& weight = in[1]->reals;
  for_each_row(*in[0], out, [&](std::span<const double> row, std::span<double> result) {
    const double mean_square = dot(row.data(), row.data(), row.size()) / static_cast<double>(row.size());
    for (std::size_t i = 0; i < row.size(); ++i) result[i] = row[i] / std::sqrt(mean_square + eps) * weight[i];
  });
}

void rope_table(const Attributes& attributes, const OracleTensor& ids, std::vector<OracleTensor>& out) {
  const std::vector<std::int64_t>& axes = attributes.get_ints("axes");
  const double theta = attributes.get_float("theta");
  const std::size_t positions = extent(ids, 0);
  std::size_t column = 0;
  for (std::size_t position = 0; position < positions; ++position) {
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      const std::size_t source = position * axes.size() + axis;
      const double id = ids.reals.empty() ? static_cast<double>(ids.integers[source]) : ids.reals[source];
      for (std::int64_t i = 0; i < axes[axis] / 2; ++i, ++column) {
        const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(axes[axis]);
        const double angle = id * std::pow(theta, exponent);
        out[0].reals[column] = std::cos(angle);
        out[1].reals[column] = std::sin(angle);
      }
    }
  }
}

void rope(Operands in, OracleTensor& out) {
  const OracleTensor& x = *in[0];
  const std::size_t table_size = in[1]->reals.size();  // [s, d/2]; repeats over the axes before s
  for (std::size_t pair = 0; pair < x.reals.size() / 2; ++pair) {
    const double cos = in[1]->reals[pair % table_size];
    const double sin = in[2]->reals[pair % table_size];
    const double even = x.reals[2 * pair];
    const double odd = x.reals[2 * pair + 1];
    out.reals[2 * pair] = even * cos - odd * sin;
    out.reals[2 * pair + 1] = odd * cos + even * sin;
  }
}

void timestep_embedding(const Attributes& attributes, const OracleTensor& t, OracleTensor& out) {
  const double scale = attributes.get_float("scale");
  const double max_period = attributes.get_float("max_period");
  const auto half = static_cast<std::size_t>(attributes.get_int("dim") / 2);
  for (std::size_t b = 0; b < extent(t, 0); ++b) {
    const double time = t.reals.empty() ? static_cast<double>(t.integers[b]) : t.reals[b];
    for (std::size_t i = 0; i < half; ++i) {
      const double angle = scale * time * std::pow(max_period, -static_cast<double>(i) / static_cast<double>(half));
      out.reals[b * 2 * half + i] = std::cos(angle);
      out.reals[b * 2 * half + half + i] = std::sin(angle);
    }
  }
}

void conv2d(const Attributes& attributes, Operands in, OracleTensor& out) {
  const Shape& x = in[0]->type.shape;       // [b, c, h, w]
  const Shape& weight = in[1]->type.shape;  // [o, c, kh, kw]
  const Shape& result = out.type.shape;     // [b, o, oh, ow]
  const std::int64_t stride = attributes.get_int("stride");
  const std::int64_t padding = attributes.get_int("padding");
  const auto pixel = [&](std::int64_t b, std::int64_t c, std::int64_t row, std::int64_t column) {
    if (row < 0 || row >= x[2] || column < 0 || column >= x[3]) return 0.0;
    return in[0]->reals[static_cast<std::size_t>(((b * x[1] + c) * x[2] + row) * x[3] + column)];
  };
  std::size_t at = 0;
  for (std::int64_t b = 0; b < result[0]; ++b) {
    for (std::int64_t o = 0; o < result[1]; ++o) {
      for (std::int64_t row = 0; row < result[2]; ++row) {
        for (std::int64_t column = 0; column < result[3]; ++column, ++at) {
          double sum = in[2]->reals[static_cast<std::size_t>(o)];
          const double* filter = in[1]->reals.data() + o * weight[1] * weight[2] * weight[3];
          for (std::int64_t c = 0; c < weight[1]; ++c) {
            for (std::int64_t i = 0; i < weight[2]; ++i) {
              for (std::int64_t j = 0; j < weight[3]; ++j, ++filter) {
                sum += *filter * pixel(b, c, row * stride + i - padding, column * stride + j - padding);
              }
            }
          }
          out.reals[at] = sum;
        }
      }
    }
  }
}

void max_pool2d(const Attributes& attributes, const OracleTensor& x, OracleTensor& out) {
  const auto window = static_cast<std::size_t>(attributes.get_int("window"));
  const std::size_t height = extent(out, 2);
  const std::size_t width = extent(out, 3);
  const std::size_t x_width = extent(x, 3);
  for (std::size_t i = 0; i < out.reals.size(); ++i) {
    const std::size_t image = i / (height * width);
    const std::size_t top = i / width % height * window;
    const std::size_t left = i % width * window;
    const double* corner = x.reals.data() + (image * extent(x, 2) + top) * x_width + left;
    double largest = *corner;
    for (std::size_t row = 0; row < window; ++row) {
      for (std::size_t column = 0; column < window; ++column) {
        const double value = corner[row * x_width + column];
        if (value > largest || std::isnan(value)) largest = value;  // a NaN wins, as in PyTorch
      }
    }
    out.reals[i] = largest;
  }
}

void mean(const OracleTensor& x, OracleTensor& out) {
  const std::size_t count = x.reals.size() / out.reals.size();
  for (std::size_t i = 0; i < out.reals.size(); ++i)
    out.reals[i] = mean_of(std::span(x.reals).subspan(i * count, count));
}

}  // namespace headroom::oracle
