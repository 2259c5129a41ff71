#include "io/gguf_writer.hpp"

#include <algorithm>
#include <bit>
#include <set>

#include "base/error.hpp"
#include "base/text/printable.hpp"

namespace headroom {
namespace {

constexpr std::uint64_t kAlignment = 32;                    // the format's default
constexpr std::size_t kMostTensorName = 63, kMostRank = 4;  // of ggml

std::uint64_t aligned(std::uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

static_assert(std::endian::native == std::endian::little);
template <typename T>
void put(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void put_text(std::string& to, std::string_view text) {
  put<std::uint64_t>(to, text.size());
  to += text;
}

void check(const std::filesystem::path& path, const GgufTensorSpec& tensor) {
  const auto refuse = [&](std::string_view why) {
    fail("cannot write {}: {} {}", path.native(), printable_name(tensor.name), why);
  };
  const std::span<const std::int64_t> extents = tensor.shape.dims();
  if (tensor.name.size() > kMostTensorName) refuse("has a name of more than 63 bytes");
  if (extents.size() > kMostRank) refuse("has more than four extents");
  if (!extents.empty() && extents.back() % tensor.format->elements != 0)
    refuse(fmt::format("has rows of {}, which are no whole blocks of {}", extents.back(), tensor.format->name));
}

std::string make_header(std::span<const GgufTensorSpec> tensors, const GgufMetadata& metadata) {
  constexpr std::uint32_t kVersion = 3, kU32 = 4, kText = 8;
  std::string header = "GGUF";
  put(header, kVersion);
  put<std::uint64_t>(header, tensors.size());
  put<std::uint64_t>(header, metadata.size());
  for (const auto& [key, value] : metadata) {
    put_text(header, key);
    if (const auto* const text = std::get_if<std::string>(&value)) {
      put(header, kText);
      put_text(header, *text);
    } else {
      put(header, kU32);
      put(header, std::get<std::uint32_t>(value));
    }
  }
  std::uint64_t offset = 0;
  for (const GgufTensorSpec& tensor : tensors) {
    put_text(header, tensor.name);
    put<std::uint32_t>(header, static_cast<std::uint32_t>(tensor.shape.rank()));
    for (int axis = tensor.shape.rank() - 1; axis >= 0; --axis)  // the innermost first
      put<std::uint64_t>(header, static_cast<std::uint64_t>(tensor.shape[axis]));
    put(header, tensor.format->number);
    put(header, offset);
    offset = aligned(offset + tensor.size_bytes());
  }
  header.resize(aligned(header.size()), '\0');
  return header;
}

std::uint64_t bytes_of(std::span<const GgufTensorSpec> tensors) {
  std::uint64_t bytes = 0;
  for (const GgufTensorSpec& tensor : tensors) bytes += aligned(tensor.size_bytes());
  return bytes;
}

}  // namespace

std::uint64_t GgufTensorSpec::size_bytes() const {
  return static_cast<std::uint64_t>(shape.numel() / format->elements * format->bytes);
}

GgufWriter::GgufWriter(const std::filesystem::path& path, std::vector<GgufTensorSpec> tensors,
                       const GgufMetadata& metadata)
    : file_(path, bytes_of(tensors)), tensors_(std::move(tensors)) {
  std::set<std::string_view> names;
  for (const GgufTensorSpec& tensor : tensors_) {
    check(path, tensor);
    if (!names.insert(tensor.name).second)
      fail("cannot write {}: two tensors are called {}", path.native(), printable_name(tensor.name));
  }
  const std::string header = make_header(tensors_, metadata);
  file_.write(header);
  at_ = header.size();
  skip_complete();
}

void GgufWriter::pad() {
  const std::string zeros(aligned(at_) - at_, '\0');
  file_.write(zeros);
  at_ += zeros.size();
}

void GgufWriter::skip_complete() {
  while (current_ < tensors_.size() && written_bytes_ == tensors_[current_].size_bytes()) {
    ++current_;
    written_bytes_ = 0;
    pad();
  }
}

void GgufWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  HR_CHECK_LT(current_, tensors_.size());
  HR_CHECK_EQ(name, tensors_[current_].name);
  HR_CHECK_LE(bytes.size(), tensors_[current_].size_bytes() - written_bytes_);
  file_.write(bytes);
  at_ += bytes.size();
  written_bytes_ += bytes.size();
  skip_complete();
}

void GgufWriter::commit() {
  HR_CHECK_EQ(current_, tensors_.size());
  file_.commit();
}

}  // namespace headroom
