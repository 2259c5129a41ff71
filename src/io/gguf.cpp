#include "io/gguf.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "base/files/truncated_file.hpp"
#include "base/text/printable.hpp"

namespace headroom {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr std::uint64_t kSmallestHeader = 24;  // magic, version and both counts
constexpr std::uint64_t kMostHeaderBytes = 100'000'000;
constexpr std::uint64_t kMostMetadata = 65'536;
constexpr std::uint64_t kMostTensors = 262'144;
constexpr std::uint64_t kMostNameBytes = 65'535;  // of the format
constexpr std::uint32_t kMostExtents = 4;         // of the format
constexpr int kMostNested = 4;
// The least bytes of an entry: a name's length, a type, and a value; for a tensor a rank, a type and an offset.
constexpr std::uint64_t kLeastMetadataBytes = 8 + 4 + 1;
constexpr std::uint64_t kLeastTensorBytes = 8 + 4 + 4 + 8;

constexpr std::string_view kAlignmentKey = "general.alignment";
constexpr std::uint64_t kUsualAlignment = 32;
constexpr std::string_view kTrueShapePrefix = "comfy.gguf.orig_shape.";

struct TypeInfo {
  std::string_view name;
  std::uint64_t bytes;  // of a value; 0: it says its own
};
constexpr std::array<TypeInfo, 13> kTypes = {{{"u8", 1},
                                              {"i8", 1},
                                              {"u16", 2},
                                              {"i16", 2},
                                              {"u32", 4},
                                              {"i32", 4},
                                              {"f32", 4},
                                              {"bool", 1},
                                              {"text", 0},
                                              {"array", 0},
                                              {"u64", 8},
                                              {"i64", 8},
                                              {"f64", 8}}};
const TypeInfo& info_of(GgufType type) { return kTypes[static_cast<std::size_t>(type)]; }

template <typename T>
T load_little(std::span<const std::byte> bytes) {
  static_assert(std::endian::native == std::endian::little);
  T value;
  HR_CHECK_LE(sizeof value, bytes.size());
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A name of the file, safe to print.
std::string shown_name(std::string_view name) {
  return fmt::format("\"{}\"", shortened(printable_name(name.substr(0, 400)), 100));
}

std::string shown_extents(std::span<const std::int64_t> outermost_first) {
  return fmt::format("[{}]", fmt::join(outermost_first, ", "));
}

/// The names of the formats that are read.
std::string read_formats() {
  std::vector<std::string_view> names;
  for (const BlockFormat& format : block_formats())
    if (format.is_read()) names.push_back(format.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Reads the header front to back.
class GgufHeaderReader {
 public:
  GgufHeaderReader(std::span<const std::byte> file, std::string_view context)
      : file_(file), end_(std::min<std::uint64_t>(file.size(), kMostHeaderBytes)), context_(context) {}

  GgufHeader read() {
    read_start();
    for (item_ = 0; item_ < metadata_count_; ++item_) read_entry();
    check_keys();
    header_.alignment = read_alignment();
    header_.part = read_part();
    part_ = "tensor";
    for (item_ = 0; item_ < tensor_count_; ++item_) read_tensor();
    place_tensors();
    std::ranges::sort(header_.tensors, {}, &GgufTensor::name);
    const auto twice = std::ranges::adjacent_find(header_.tensors, {}, &GgufTensor::name);
    if (twice != header_.tensors.end()) fail("{}: two tensors are called {}", context_, shown_name(twice->name));
    restore_shapes();
    return std::move(header_);
  }

 private:
  /// "f: tensor 3 of 7 ("x") at byte 120"
  [[nodiscard]] std::string place() const {
    if (part_.empty()) return std::string(context_);
    const std::uint64_t count = part_ == "tensor" ? tensor_count_ : metadata_count_;
    const std::string name = name_.data() == nullptr ? "" : fmt::format(" ({})", shown_name(name_));
    return fmt::format("{}: {} {} of {}{} at byte {}", context_, part_, item_ + 1, count, name, begin_);
  }

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail("{}: {}", place(), fmt::format(format, std::forward<Args>(args)...));
  }

  /// The next `count` bytes.
  std::span<const std::byte> take(std::uint64_t count, std::string_view what) {
    if (count > end_ - at_) {
      if (end_ < file_.size())
        refuse("{} has {} bytes, but the header of a file may have {} in all", what, count, kMostHeaderBytes);
      refuse("{} has {} bytes, but the file ends {} bytes after its begin", what, count, end_ - at_);
    }
    const auto taken = file_.subspan(at_, count);
    at_ += count;
    return taken;
  }
  std::uint32_t take_u32(std::string_view what) { return load_little<std::uint32_t>(take(4, what)); }
  std::uint64_t take_u64(std::string_view what) { return load_little<std::uint64_t>(take(8, what)); }

  std::string_view take_name(std::string_view what) {
    const std::uint64_t length = take_u64(what);
    if (length > kMostNameBytes) refuse("{} has {} bytes, but at most {} were expected", what, length, kMostNameBytes);
    return as_text(take(length, what));
  }

  void read_start() {
    if (file_.size() < kSmallestHeader)
      fail("{} is not a GGUF file: it has {} bytes, but at least {} were expected", context_, file_.size(),
           kSmallestHeader);
    const std::string_view magic = as_text(take(kMagic.size(), "the magic"));
    if (magic != kMagic)
      fail("{} is not a GGUF file: it begins with {}, but \"{}\" was expected", context_, shown_name(magic), kMagic);
    header_.version = take_u32("the version");
    if ((header_.version & 0xFFFFU) == 0 && header_.version != 0)
      fail("{} is a GGUF file in big-endian byte order, but little-endian was expected", context_);
    if (header_.version < 2 || header_.version > 3)
      fail("{} is a GGUF file of version {}, but version 2 or 3 was expected", context_, header_.version);
    tensor_count_ = take_count("tensors", kMostTensors, kLeastTensorBytes);
    metadata_count_ = take_count("metadata", kMostMetadata, kLeastMetadataBytes);
    if (tensor_count_ * kLeastTensorBytes + metadata_count_ * kLeastMetadataBytes > end_ - at_)
      fail("{}: the header has {} tensors and {} metadata, but the {} bytes after that hold fewer", context_,
           tensor_count_, metadata_count_, end_ - at_);
    header_.metadata.reserve(metadata_count_);
    header_.tensors.reserve(tensor_count_);
    part_ = "metadata";
  }

  std::uint64_t take_count(std::string_view what, std::uint64_t most, std::uint64_t least_bytes) {
    const std::uint64_t count = take_u64(what);
    if (count > most) fail("{}: the header has {} {}, but at most {} are read", context_, count, what, most);
    if (count > (end_ - at_) / least_bytes)
      fail("{}: the header has {} {}, but the {} bytes after that hold fewer", context_, count, what, end_ - at_);
    return count;
  }

  GgufType take_type(std::string_view what) {
    const std::uint32_t number = take_u32(what);
    if (number >= kTypes.size()) refuse("{} is {}, but 0 to {} was expected", what, number, kTypes.size() - 1);
    return static_cast<GgufType>(number);
  }

  void read_entry() {
    begin_ = at_;
    name_ = {};
    name_ = take_name("the key");
    const GgufType type = take_type("the type");
    const std::uint64_t begin = at_;
    skip_value(type, 0);
    header_.metadata.push_back({name_, GgufValue(type, file_.subspan(begin, at_ - begin))});
  }

  void skip_value(GgufType type, int depth) {
    if (type == GgufType::kText) {
      static_cast<void>(take(take_u64("a text's length"), "a text"));
    } else if (type == GgufType::kArray) {
      skip_array(depth);
    } else {
      check_booleans(type, take(info_of(type).bytes, "the value"));
    }
  }

  void skip_array(int depth) {
    if (depth == kMostNested) refuse("arrays are nested more than {} deep", kMostNested);
    const GgufType type = take_type("the type of an array's elements");
    const std::uint64_t count = take_u64("an array's count");
    const std::uint64_t least = type == GgufType::kArray ? 12 : type == GgufType::kText ? 8 : info_of(type).bytes;
    if (count > (end_ - at_) / least)
      refuse("an array has {} elements of type {}, but the {} bytes after that hold fewer", count, name_of(type),
             end_ - at_);
    if (info_of(type).bytes > 0)
      check_booleans(type, take(count * least, "an array"));
    else
      for (std::uint64_t i = 0; i < count; ++i) skip_value(type, depth + 1);
  }

  void check_booleans(GgufType type, std::span<const std::byte> values) const {
    if (type != GgufType::kBool) return;
    for (const std::byte value : values)
      if (std::to_integer<unsigned>(value) > 1)
        refuse("a bool is {}, but 0 or 1 was expected", std::to_integer<unsigned>(value));
  }

  void check_keys() const {
    std::vector<std::string_view> keys;
    keys.reserve(header_.metadata.size());
    for (const GgufEntry& entry : header_.metadata) keys.push_back(entry.key);
    std::ranges::sort(keys);
    const auto twice = std::ranges::adjacent_find(keys);
    if (twice != keys.end()) fail("{}: two metadata are called {}", context_, shown_name(*twice));
  }

  [[nodiscard]] std::uint64_t read_alignment() const {
    const GgufValue* const value = header_.find_metadata(kAlignmentKey);
    if (value == nullptr) return kUsualAlignment;
    const std::int64_t alignment = value->integer().value_or(0);
    if (value->type() != GgufType::kU32)
      fail("{}: {} is of type {}, but u32 was expected", context_, kAlignmentKey, name_of(value->type()));
    if (!std::has_single_bit(static_cast<std::uint64_t>(alignment)))
      fail("{}: {} is {}, but a power of two was expected", context_, kAlignmentKey, alignment);
    return static_cast<std::uint64_t>(alignment);
  }

  /// From the metadata of llama.cpp's gguf-split.
  [[nodiscard]] std::optional<GgufPart> read_part() const {
    const auto read_number = [&](std::string_view key) -> std::optional<std::int64_t> {
      const GgufValue* const value = header_.find_metadata(key);
      if (value == nullptr) return std::nullopt;
      const std::optional<std::int64_t> number = value->integer();
      if (!number || *number < 0 || *number > std::numeric_limits<std::uint16_t>::max())
        fail("{}: {} is no number of parts", context_, key);
      return number;
    };
    const std::optional<std::int64_t> count = read_number("split.count");
    const std::int64_t index = read_number("split.no").value_or(0);
    if (count.value_or(0) < 2) return std::nullopt;
    if (index >= *count) fail("{}: split.no is {}, but split.count is {}", context_, index, *count);
    return GgufPart{.number = index + 1, .count = *count};
  }

  void read_tensor() {
    begin_ = at_;
    name_ = {};
    name_ = take_name("the name");
    const std::uint32_t rank = take_u32("the rank");
    if (rank > kMostExtents) refuse("the rank is {}, but at most {} was expected", rank, kMostExtents);
    std::array<std::int64_t, kMostExtents> extents = {};
    for (std::uint32_t axis = rank; axis-- > 0;) {  // innermost first
      const std::uint64_t extent = take_u64("an extent");
      if (extent > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        refuse("an extent is {}, but less than 2^63 was expected", extent);
      extents[axis] = static_cast<std::int64_t>(extent);
    }
    const std::span<const std::int64_t> given(extents.data(), rank);
    const std::uint32_t number = take_u32("the type");
    const BlockFormat* const format = find_block_format(number);
    if (format == nullptr)
      refuse("the type is {}, which is not known; the last known one is {}, {}", number, block_formats().back().number,
             block_formats().back().name);
    const std::uint64_t size_bytes = checked_bytes(given, *format);
    const std::uint64_t offset = take_u64("the offset");
    if (offset % header_.alignment != 0)
      refuse("the offset is {}, but a multiple of the file's alignment, {}, was expected", offset, header_.alignment);
    header_.tensors.push_back(
        {.name = name_, .format = format, .shape = Shape(given), .offset = offset, .size_bytes = size_bytes});
  }

  /// Zero extents count as 1, so that no order of multiplication overflows later.
  [[nodiscard]] std::uint64_t checked_bytes(std::span<const std::int64_t> extents, const BlockFormat& format) const {
    const std::int64_t innermost = extents.empty() ? 1 : extents.back();
    if (innermost % format.elements != 0)
      refuse("the innermost extent of {} is {}, but a multiple of {}, a block of {}, was expected",
             shown_extents(extents), innermost, format.elements, format.name);
    std::int64_t elements = 1, bytes = 0;
    bool is_empty = false, overflows = false;
    for (const std::int64_t extent : extents) {
      is_empty = is_empty || extent == 0;
      overflows = overflows || __builtin_mul_overflow(elements, std::max<std::int64_t>(extent, 1), &elements);
    }
    // in f32, and in blocks
    if (overflows || __builtin_mul_overflow(elements, std::int64_t{4}, &bytes) ||
        __builtin_mul_overflow(elements / format.elements, format.bytes, &bytes))
      refuse("the shape is {}, but fewer than 2^63 bytes were expected", shown_extents(extents));
    return is_empty ? 0 : static_cast<std::uint64_t>(bytes);
  }

  /// Data begin at the first multiple of the alignment. Offsets become those in the file.
  void place_tensors() {
    const std::uint64_t data_begin = (at_ + header_.alignment - 1) / header_.alignment * header_.alignment;
    const std::uint64_t data_bytes = file_.size() > data_begin ? file_.size() - data_begin : 0;
    for (GgufTensor& tensor : header_.tensors) {
      if (tensor.size_bytes > 0 && (tensor.offset > data_bytes || tensor.size_bytes > data_bytes - tensor.offset))
        fail("{}: tensor {} has {} bytes from data byte {}, but the file has {} data bytes", context_,
             shown_name(tensor.name), tensor.size_bytes, tensor.offset, data_bytes);
      tensor.offset =
          tensor.size_bytes > 0 ? data_begin + tensor.offset : std::min<std::uint64_t>(data_begin, file_.size());
    }
    std::ranges::sort(header_.tensors, {}, &GgufTensor::offset);
    const GgufTensor* before = nullptr;
    for (const GgufTensor& tensor : header_.tensors) {
      if (tensor.size_bytes == 0) continue;
      if (before != nullptr && tensor.offset < before->offset + before->size_bytes)
        fail("{}: tensor {} begins at data byte {}, within tensor {}", context_, shown_name(tensor.name),
             tensor.offset - data_begin, shown_name(before->name));
      before = &tensor;
    }
  }

  /// ComfyUI's converter flattens tensors of more than four extents, and others whose rows are no whole blocks.
  void restore_shapes() {
    for (const GgufEntry& entry : header_.metadata) {
      if (!entry.key.starts_with(kTrueShapePrefix)) continue;
      const auto tensor =
          std::ranges::lower_bound(header_.tensors, entry.key.substr(kTrueShapePrefix.size()), {}, &GgufTensor::name);
      if (tensor == header_.tensors.end() || tensor->name != entry.key.substr(kTrueShapePrefix.size())) continue;
      const auto bad = [&](std::string_view what) {
        fail("{}: {} {}, but the extents of tensor {} were expected, {} elements", context_, shown_name(entry.key),
             what, shown_name(tensor->name), tensor->shape.numel());
      };
      if (entry.value.type() != GgufType::kArray || entry.value.count() > Shape::kMaxRank)
        bad(fmt::format("is not an array of at most {} integers", Shape::kMaxRank));
      Shape shape;
      std::int64_t elements = 1;
      for (const GgufValue& value : entry.value.elements(Shape::kMaxRank)) {
        const std::int64_t extent = value.integer().value_or(-1);
        if (extent < 0 || __builtin_mul_overflow(elements, std::max<std::int64_t>(extent, 1), &elements))
          bad("has an element that is no extent");
        shape.push_back(extent);
      }
      if (shape.numel() != tensor->shape.numel()) bad(fmt::format("is {}", shape));
      tensor->shape = shape;
    }
  }

  std::span<const std::byte> file_;
  std::uint64_t end_;  // of what may be the header
  std::string_view context_;
  GgufHeader header_;
  std::uint64_t tensor_count_ = 0;
  std::uint64_t metadata_count_ = 0;
  std::uint64_t at_ = 0;
  // for messages: the current entry
  std::string_view part_;
  std::string_view name_;
  std::uint64_t item_ = 0;
  std::uint64_t begin_ = 0;
};

/// The bytes of a validated value of that type which `bytes` begin with.
std::uint64_t encoded_bytes(GgufType type, std::span<const std::byte> bytes) {
  if (type == GgufType::kText) return 8 + load_little<std::uint64_t>(bytes);
  if (type != GgufType::kArray) return info_of(type).bytes;
  const auto element = static_cast<GgufType>(load_little<std::uint32_t>(bytes));
  const auto count = load_little<std::uint64_t>(bytes.subspan(4));
  if (const std::uint64_t each = info_of(element).bytes; each > 0) return 12 + count * each;
  std::uint64_t at = 12;
  for (std::uint64_t i = 0; i < count; ++i) {
    HR_CHECK_LE(at, bytes.size());  // the file may have been changed since it was validated
    at += encoded_bytes(element, bytes.subspan(at));
  }
  return at;
}

}  // namespace

std::string_view name_of(GgufType type) { return info_of(type).name; }

std::optional<std::int64_t> GgufValue::integer() const {
  switch (type_) {
    case GgufType::kU8:
      return load_little<std::uint8_t>(bytes_);
    case GgufType::kI8:
      return load_little<std::int8_t>(bytes_);
    case GgufType::kU16:
      return load_little<std::uint16_t>(bytes_);
    case GgufType::kI16:
      return load_little<std::int16_t>(bytes_);
    case GgufType::kU32:
      return load_little<std::uint32_t>(bytes_);
    case GgufType::kI32:
      return load_little<std::int32_t>(bytes_);
    case GgufType::kI64:
      return load_little<std::int64_t>(bytes_);
    case GgufType::kU64: {
      const std::uint64_t value = *large_integer();
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
      return static_cast<std::int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

std::optional<std::uint64_t> GgufValue::large_integer() const {
  return type_ == GgufType::kU64 ? std::optional(load_little<std::uint64_t>(bytes_)) : std::nullopt;
}

std::optional<double> GgufValue::number() const {
  if (type_ == GgufType::kF32) return load_little<float>(bytes_);
  if (type_ == GgufType::kF64) return load_little<double>(bytes_);
  if (const auto large = large_integer()) return static_cast<double>(*large);
  const std::optional<std::int64_t> exact = integer();
  return exact ? std::optional(static_cast<double>(*exact)) : std::nullopt;
}

std::optional<bool> GgufValue::boolean() const {
  return type_ == GgufType::kBool ? std::optional(bytes_[0] != std::byte{0}) : std::nullopt;
}

std::optional<std::string_view> GgufValue::text() const {
  return type_ == GgufType::kText ? std::optional(as_text(bytes_.subspan(8))) : std::nullopt;
}

GgufType GgufValue::element_type() const {
  HR_CHECK(type_ == GgufType::kArray);
  return static_cast<GgufType>(load_little<std::uint32_t>(bytes_));
}

std::uint64_t GgufValue::count() const {
  HR_CHECK(type_ == GgufType::kArray);
  return load_little<std::uint64_t>(bytes_.subspan(4));
}

std::vector<GgufValue> GgufValue::elements(std::size_t most) const {
  const GgufType type = element_type();
  std::vector<GgufValue> values;
  std::span<const std::byte> rest = bytes_.subspan(12);
  for (std::uint64_t i = 0, count = std::min<std::uint64_t>(this->count(), most); i < count; ++i) {
    const std::uint64_t bytes = encoded_bytes(type, rest);
    HR_CHECK_LE(bytes, rest.size());
    values.emplace_back(type, rest.first(bytes));
    rest = rest.subspan(bytes);
  }
  return values;
}

const GgufValue* GgufHeader::find_metadata(std::string_view key) const {
  const auto found = std::ranges::find(metadata, key, &GgufEntry::key);
  return found == metadata.end() ? nullptr : &found->value;
}

const GgufTensor* GgufHeader::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(tensors, name, {}, &GgufTensor::name);
  return found == tensors.end() || found->name != name ? nullptr : &*found;
}

bool is_gguf(std::span<const std::byte> file) {
  return file.size() >= kMagic.size() && as_text(file.first(kMagic.size())) == kMagic;
}

GgufHeader parse_gguf_header(std::span<const std::byte> file, std::string_view context) {
  return GgufHeaderReader(file, context).read();
}

GgufFile::GgufFile(MappedFile file, GgufHeader header) : file_(std::move(file)), header_(std::move(header)) {}

GgufFile GgufFile::open(const std::filesystem::path& path) {
  MappedFile file(path);
  GgufHeader header = parse_gguf_header(file.bytes(), path.native());
  require_whole(file.bytes());
  return {std::move(file), std::move(header)};
}

const GgufTensor& GgufFile::tensor(std::string_view name) const {
  const GgufTensor* const found = header_.find(name);
  if (found == nullptr) fail("{} has no tensor {}", path().native(), shown_name(name));
  return *found;
}

std::span<const std::byte> GgufFile::bytes(const GgufTensor& tensor) const {
  return file_.bytes().subspan(tensor.offset, tensor.size_bytes);
}

HostTensor GgufFile::unpack(const GgufTensor& tensor) const {
  if (!tensor.format->is_read())
    fail("{}: tensor {} is {}, which is not read; expected one of {}", path().native(), shown_name(tensor.name),
         tensor.format->name, read_formats());
  HostTensor values(DType::kF32, tensor.shape);
  unpack_blocks(*tensor.format, bytes(tensor), values.as<float>());
  require_whole(file_.bytes());
  return values;
}

void GgufFile::release(const GgufTensor& tensor) const { file_.release(tensor.offset, tensor.size_bytes); }

}  // namespace headroom
