#include "io/safetensors.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/json.hpp"

namespace headroom {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // as in the reference implementation
constexpr std::string_view kMetadataKey = "__metadata__";

/// A name from a file, safe to print: quoted, escaped and cut.
std::string quote(std::string_view name) {
  std::string text = json(std::string(name)).dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > 100) text = text.substr(0, 100) + "...\"";
  return text;
}

std::string known_dtypes() {
  constexpr std::array kNames{
#define HR_DTYPE(enumerator, name, size, is_float, safetensors_name) std::string_view(safetensors_name),
#include "base/dtypes.def"
#undef HR_DTYPE
  };
  return fmt::format("{}", fmt::join(kNames, ", "));
}

/// Reads one member of the header's object; `where` is "<file>: tensor <name>" for messages.
class EntryParser {
 public:
  EntryParser(const json& value, std::string where) : value_(value), where_(std::move(where)) {}

  [[nodiscard]] SafetensorsEntry parse(std::uint64_t data_begin, std::uint64_t data_bytes) const {
    if (!value_.is_object() || value_.size() != 3) bad("its entry", value_, "exactly dtype, shape and data_offsets");
    SafetensorsEntry entry;
    entry.dtype = parse_dtype();
    entry.shape = parse_shape();
    const std::uint64_t expected = checked_size(entry.dtype, entry.shape);

    const json& offsets = member("data_offsets");
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
        !offsets[1].is_number_unsigned()) {
      bad("data_offsets", offsets, "two non-negative integers");
    }
    const auto begin = offsets[0].get<std::uint64_t>();
    const auto end = offsets[1].get<std::uint64_t>();
    if (begin > end) bad("data_offsets", offsets, "a begin that is not after the end");
    if (end > data_bytes) {
      bad("data_offsets", offsets, fmt::format("at most the {} data bytes that the file has", data_bytes));
    }
    if (end - begin != expected) {
      bad("data_offsets", offsets,
          fmt::format("the {} bytes of shape {} in {}", expected, entry.shape, safetensors_name_of(entry.dtype)));
    }
    entry.offset = data_begin + begin;
    entry.size_bytes = expected;
    return entry;
  }

 private:
  [[noreturn]] void bad(std::string_view what, const json& value, std::string_view expected) const {
    std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
    if (text.size() > 100) text = text.substr(0, 100) + "...";
    fail("{}: {} is {}, but {} was expected", where_, what, text, expected);
  }

  [[nodiscard]] const json& member(const char* key) const {
    const auto found = value_.find(key);
    if (found == value_.end()) bad("its entry", value_, "exactly dtype, shape and data_offsets");
    return *found;
  }

  [[nodiscard]] DType parse_dtype() const {
    const json& name = member("dtype");
    const auto dtype = name.is_string() ? parse_safetensors_dtype(name.get_ref<const std::string&>()) : std::nullopt;
    if (!dtype) bad("dtype", name, fmt::format("one of {}", known_dtypes()));
    return *dtype;
  }

  [[nodiscard]] Shape parse_shape() const {
    const json& extents = member("shape");
    if (!extents.is_array()) bad("shape", extents, "an array of non-negative integers");
    if (extents.size() > static_cast<std::size_t>(Shape::kMaxRank)) {
      bad("shape", extents, fmt::format("at most {} dimensions", Shape::kMaxRank));
    }
    Shape shape;
    for (const json& extent : extents) {
      constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
      if (!extent.is_number_unsigned() || extent.get<std::uint64_t>() > kLargest) {
        bad("shape", extents, "an array of non-negative 64-bit integers");
      }
      shape.push_back(extent.get<std::int64_t>());
    }
    return shape;
  }

  /// Bytes of the tensor. A zero extent does not excuse the others, so that neither Shape::numel nor row_major_strides
  /// overflows, in whatever order they multiply: [2^62, 4, 0] and [0, 2^62, 4] are refused.
  [[nodiscard]] std::uint64_t checked_size(DType dtype, const Shape& shape) const {
    std::int64_t product = static_cast<std::int64_t>(size_of(dtype));
    bool empty = false;
    for (const std::int64_t extent : shape.dims()) {
      empty = empty || extent == 0;
      if (__builtin_mul_overflow(product, std::max<std::int64_t>(extent, 1), &product)) {
        bad("shape", member("shape"), "fewer than 2^63 bytes");
      }
    }
    return empty ? 0 : static_cast<std::uint64_t>(product);
  }

  const json& value_;
  std::string where_;
};

SafetensorsMetadata parse_metadata(const json& value, std::string_view context) {
  if (!value.is_object()) fail("{}: {} must map strings to strings", context, kMetadataKey);
  SafetensorsMetadata metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) fail("{}: {} maps {} to something that is not a string", context, kMetadataKey, quote(key));
    metadata.emplace(key, text.get<std::string>());
  }
  return metadata;
}

/// The tensors must lie back to back from `begin` to `end`.
void check_coverage(const SafetensorsEntries& entries, std::uint64_t begin, std::uint64_t end,
                    std::string_view context) {
  using Item = SafetensorsEntries::value_type;
  std::vector<const Item*> in_order;
  in_order.reserve(entries.size());
  for (const Item& item : entries) in_order.push_back(&item);
  std::ranges::sort(in_order, {},
                    [](const Item* item) { return std::pair(item->second.offset, item->second.size_bytes); });
  std::uint64_t cursor = begin;
  for (const Item* item : in_order) {
    const SafetensorsEntry& entry = item->second;
    if (entry.offset != cursor) {
      fail("{}: tensor {} begins at data byte {}, but {} was expected, where the tensor before it ends ({})", context,
           quote(item->first), entry.offset - begin, cursor - begin, entry.offset < cursor ? "an overlap" : "a hole");
    }
    cursor += entry.size_bytes;
  }
  if (cursor != end) {
    fail("{}: the tensors end at data byte {}, but the file has {} data bytes", context, cursor - begin, end - begin);
  }
}

/// The length field and the JSON header, padded with spaces so that the data begin at a multiple of 8 bytes.
std::string make_header(std::span<const TensorSpec> tensors, const SafetensorsMetadata& metadata) {
  std::string text = "{";
  const auto append = [&](std::string_view key, std::string_view value) {
    if (text.size() > 1) text += ',';
    text += fmt::format("{}:{}", dump_json(std::string(key)), value);
  };
  if (!metadata.empty()) append(kMetadataKey, dump_json(json(metadata)));
  std::uint64_t offset = 0;
  for (const TensorSpec& tensor : tensors) {
    const std::uint64_t end = offset + tensor.size_bytes();
    append(tensor.name,
           fmt::format(R"({{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", safetensors_name_of(tensor.dtype),
                       fmt::join(tensor.shape.dims(), ","), offset, end));
    offset = end;
  }
  text += '}';
  while (text.size() % 8 != 0) text += ' ';
  std::string length(kLengthBytes, '\0');
  for (std::size_t i = 0; i < kLengthBytes; ++i) length[i] = static_cast<char>((text.size() >> (8 * i)) & 0xFFU);
  return length + text;
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, std::string_view context) {
  if (file.size() < kLengthBytes) {
    fail("{} is not a safetensors file: it has {} bytes, but at least {} were expected", context, file.size(),
         kLengthBytes);
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) length |= std::to_integer<std::uint64_t>(file[i]) << (8 * i);
  if (length > kMaxHeaderBytes) {
    fail("{} is not a safetensors file: its header would have {} bytes, but at most {} are allowed", context, length,
         kMaxHeaderBytes);
  }
  if (length > file.size() - kLengthBytes) {
    fail("{} is truncated: its header should have {} bytes, but only {} are there", context, length,
         file.size() - kLengthBytes);
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  if (!text.starts_with('{')) fail("{} is not a safetensors file: its header does not begin with '{{'", context);

  const std::uint64_t data_begin = kLengthBytes + length;
  SafetensorsHeader header;
  const json object = parse_json(text, fmt::format("the header of {}", context));
  for (const auto& [name, value] : object.items()) {
    if (name == kMetadataKey) {
      header.metadata = parse_metadata(value, context);
    } else {
      const EntryParser parser(value, fmt::format("{}: tensor {}", context, quote(name)));
      header.entries.emplace(name, parser.parse(data_begin, file.size() - data_begin));
    }
  }
  check_coverage(header.entries, data_begin, file.size(), context);
  return header;
}

SafetensorsFile::SafetensorsFile(MappedFile file, SafetensorsHeader header)
    : file_(std::move(file)), header_(std::move(header)) {}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  MappedFile file(path);
  SafetensorsHeader header = parse_safetensors_header(file.bytes(), path.native());
  return {std::move(file), std::move(header)};
}

const SafetensorsEntry& SafetensorsFile::entry(std::string_view name) const {
  const auto found = header_.entries.find(name);
  if (found == header_.entries.end()) fail("{} has no tensor {}", path().native(), quote(name));
  return found->second;
}

std::span<const std::byte> SafetensorsFile::bytes(std::string_view name) const {
  const SafetensorsEntry& found = entry(name);
  return file_.bytes().subspan(found.offset, found.size_bytes);
}

HostTensor SafetensorsFile::read(std::string_view name) const {
  const SafetensorsEntry& found = entry(name);
  HostTensor tensor(found.dtype, found.shape);
  std::ranges::copy(bytes(name), tensor.bytes().begin());
  return tensor;
}

void SafetensorsFile::release(std::string_view name) const {
  const SafetensorsEntry& found = entry(name);
  file_.release(found.offset, found.size_bytes);
}

namespace {

/// Of the elements, which is next to all of a file.
std::uint64_t bytes_of(std::span<const TensorSpec> tensors) {
  std::uint64_t bytes = 0;
  for (const TensorSpec& tensor : tensors) bytes += tensor.size_bytes();
  return bytes;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorSpec> tensors,
                                     const SafetensorsMetadata& metadata)
    : file_(path, bytes_of(tensors)), tensors_(std::move(tensors)) {
  std::set<std::string_view> names;
  for (const TensorSpec& tensor : tensors_) {
    for (const std::int64_t extent : tensor.shape.dims()) HR_CHECK_LE(0, extent);
    if (tensor.name == kMetadataKey) fail("cannot write {}: {} cannot name a tensor", path.native(), kMetadataKey);
    if (!names.insert(tensor.name).second) {
      fail("cannot write {}: two tensors are called {}", path.native(), quote(tensor.name));
    }
  }
  const std::string header = make_header(tensors_, metadata);
  if (header.size() - kLengthBytes > kMaxHeaderBytes) {
    fail("cannot write {}: its header would have {} bytes, but the format allows {}", path.native(),
         header.size() - kLengthBytes, kMaxHeaderBytes);
  }
  file_.write(header);
  skip_complete();
}

void SafetensorsWriter::skip_complete() {
  while (current_ < tensors_.size() && written_bytes_ == tensors_[current_].size_bytes()) {
    ++current_;
    written_bytes_ = 0;
  }
}

void SafetensorsWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  HR_CHECK_LT(current_, tensors_.size());
  HR_CHECK_EQ(name, tensors_[current_].name);
  HR_CHECK_LE(bytes.size(), tensors_[current_].size_bytes() - written_bytes_);
  file_.write(bytes);
  written_bytes_ += bytes.size();
  skip_complete();
}

void SafetensorsWriter::commit() {
  HR_CHECK_EQ(current_, tensors_.size());
  file_.commit();
}

void write_safetensors(const std::filesystem::path& path, const std::map<std::string, HostTensor>& tensors,
                       const SafetensorsMetadata& metadata) {
  std::vector<TensorSpec> specs;
  specs.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) specs.push_back({name, tensor.dtype(), tensor.shape()});
  std::ranges::stable_sort(specs, std::ranges::greater(), [](const TensorSpec& spec) { return size_of(spec.dtype); });
  SafetensorsWriter writer(path, specs, metadata);
  for (const TensorSpec& spec : specs) writer.write(spec.name, tensors.at(spec.name).bytes());
  writer.commit();
}

}  // namespace headroom
