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
#include "base/files/truncated_file.hpp"
#include "base/text/json.hpp"
#include "base/text/json_events.hpp"

namespace headroom {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // as in the reference implementation
constexpr std::string_view kMetadataKey = "__metadata__";

/// A name from a file, safe to print: quoted, escaped and shortened.
std::string quote(std::string_view name) {
  std::string text = json(std::string(name)).dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > 100) text = text.substr(0, 100) + "...\"";
  return text;
}

constexpr std::array kReadDtypes{
#define HR_DTYPE(enumerator, name, size, is_float, safetensors_name) std::string_view(safetensors_name),
#include "base/tensors/dtypes.def"
#undef HR_DTYPE
};

/// The other types of the format (safetensors 0.8). Types of less than a byte are packed.
struct UnreadDtype {
  std::string_view name;
  std::int64_t bits;
};
constexpr std::array kUnreadDtypes{
    UnreadDtype{"I16", 16},        UnreadDtype{"U16", 16},        UnreadDtype{"U32", 32},    UnreadDtype{"U64", 64},
    UnreadDtype{"C64", 64},        UnreadDtype{"F8_E8M0", 8},     UnreadDtype{"F6_E2M3", 6}, UnreadDtype{"F6_E3M2", 6},
    UnreadDtype{"F8_E4M3FNUZ", 8}, UnreadDtype{"F8_E5M2FNUZ", 8}, UnreadDtype{"F4", 4},
};

std::string known_dtypes() {
  std::vector<std::string_view> names(kReadDtypes.begin(), kReadDtypes.end());
  for (const UnreadDtype& dtype : kUnreadDtypes) names.push_back(dtype.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Reads one member of the header's object; `where` is "<file>: tensor <name>" for messages.
class EntryParser {
 public:
  EntryParser(json value, std::string where) : value_(std::move(value)), where_(std::move(where)) {}

  /// Adds the tensor called `name` to the header.
  void parse(const std::string& name, std::uint64_t data_begin, std::uint64_t data_bytes,
             SafetensorsHeader& header) const {
    if (!value_.is_object() || value_.size() != 3) bad("its entry", value_, "exactly dtype, shape and data_offsets");
    const json& dtype_name = member("dtype");
    const std::string_view text =
        dtype_name.is_string() ? dtype_name.get_ref<const std::string&>() : std::string_view();
    const auto dtype = parse_safetensors_dtype(text);
    const auto* const unread = std::ranges::find(kUnreadDtypes, text, &UnreadDtype::name);
    if (!dtype && unread == kUnreadDtypes.end()) bad("dtype", dtype_name, fmt::format("one of {}", known_dtypes()));
    const Shape shape = parse_shape();
    const std::uint64_t size_bytes =
        checked_size(shape, dtype ? 8 * static_cast<std::int64_t>(size_of(*dtype)) : unread->bits);
    const std::uint64_t offset = data_begin + parse_begin(data_bytes, size_bytes, shape, text);
    if (dtype)
      header.entries.emplace(name, SafetensorsEntry{*dtype, shape, offset, size_bytes});
    else
      header.unread.emplace(name, UnreadTensor{unread->name, shape, offset, size_bytes});
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

  /// The first data byte of the tensor.
  [[nodiscard]] std::uint64_t parse_begin(std::uint64_t data_bytes, std::uint64_t size_bytes, const Shape& shape,
                                          std::string_view dtype) const {
    const json& offsets = member("data_offsets");
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
        !offsets[1].is_number_unsigned()) {
      bad("data_offsets", offsets, "two non-negative integers");
    }
    const auto begin = offsets[0].get<std::uint64_t>();
    const auto end = offsets[1].get<std::uint64_t>();
    if (begin > end) bad("data_offsets", offsets, "a begin that is not after the end");
    if (end > data_bytes) {
      bad("data_offsets", offsets, fmt::format("an end of at most {}, the data bytes in the file,", data_bytes));
    }
    if (end - begin != size_bytes) {
      bad("data_offsets", offsets, fmt::format("the {} bytes of shape {} in {}", size_bytes, shape, dtype));
    }
    return begin;
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

  /// Size of the tensor in bytes. The other extents are checked even if one is zero, so that neither Shape::numel
  /// nor row_major_strides overflows in any order of multiplication: [2^62, 4, 0] and [0, 2^62, 4] are refused.
  [[nodiscard]] std::uint64_t checked_size(const Shape& shape, std::int64_t element_bits) const {
    std::int64_t product = (element_bits + 7) / 8;
    std::int64_t numel = 1;
    for (const std::int64_t extent : shape.dims()) {
      if (__builtin_mul_overflow(product, std::max<std::int64_t>(extent, 1), &product)) {
        bad("shape", member("shape"), "fewer than 2^63 bytes");
      }
      numel *= extent;
    }
    if (element_bits % 8 == 0) return numel == 0 ? 0 : static_cast<std::uint64_t>(product);
    // Bytes are computed for multiples of 8 elements first, so that neither term overflows.
    const std::int64_t bits = numel % 8 * element_bits;
    if (bits % 8 != 0) bad("shape", member("shape"), fmt::format("whole bytes of {} bits an element", element_bits));
    return static_cast<std::uint64_t>(numel / 8 * element_bits + bits / 8);
  }

  json value_;
  std::string where_;
};

/// Processes the header's members one after another, so that none of their JSON is kept.
class HeaderReader final : public json::json_sax_t {
 public:
  HeaderReader(std::uint64_t header_bytes, std::uint64_t data_begin, std::uint64_t data_bytes, std::string_view context)
      : header_bytes_(header_bytes),
        data_begin_(data_begin),
        data_bytes_(data_bytes),
        context_(context),
        document_(fmt::format("the header of {}", context)),
        entry_(document_) {}

  [[nodiscard]] const std::string& document() const noexcept { return document_; }
  [[nodiscard]] SafetensorsHeader take() { return std::move(header_); }

  bool null() override {
    if (is_metadata_ && depth_ == 1) return true;  // null metadata is allowed, as in the reference implementation
    return give([](JsonBuilder& entry) { entry.null(); });
  }
  bool boolean(bool value) override {
    return give([&](JsonBuilder& entry) { entry.boolean(value); });
  }
  bool number_integer(number_integer_t value) override {
    return give([&](JsonBuilder& entry) { entry.number_integer(value); });
  }
  bool number_unsigned(number_unsigned_t value) override {
    return give([&](JsonBuilder& entry) { entry.number_unsigned(value); });
  }
  bool number_float(number_float_t value, const string_t& text) override {
    return give([&](JsonBuilder& entry) { entry.number_float(value, text); });
  }
  bool string(string_t& value) override {
    if (!is_metadata_ || depth_ != 2) return give([&](JsonBuilder& entry) { entry.string(value); });
    header_.metadata.find(key_)->second.assign(value);
    return true;
  }
  bool binary(binary_t& /*value*/) override { return false; }  // JSON has no binary values
  bool start_object(std::size_t elements) override {
    if (depth_ > 0 && !(is_metadata_ && depth_ == 1)) give([&](JsonBuilder& entry) { entry.start_object(elements); });
    ++depth_;
    return true;
  }
  bool end_object() override {
    --depth_;
    if (depth_ == 0 || (is_metadata_ && depth_ == 1)) return true;
    return give([](JsonBuilder& entry) { entry.end_object(); });
  }
  bool start_array(std::size_t elements) override {
    give([&](JsonBuilder& entry) { entry.start_array(elements); });
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return give([](JsonBuilder& entry) { entry.end_array(); });
  }
  bool key(string_t& value) override {
    if (depth_ == 1) {
      begin_member(value);
    } else if (is_metadata_ && depth_ == 2) {
      key_.assign(value);
      if (!header_.metadata.try_emplace(key_).second) fail_repeated(key_);
      check_metadata_count();
    } else {
      entry_.key(value);
    }
    return true;
  }
  bool parse_error(std::size_t /*position*/, const std::string& /*last_token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return false;
  }

 private:
  [[noreturn]] void fail_repeated(std::string_view key) const {
    fail("{} repeats the key {} in one object", document_, quote(key));
  }
  [[nodiscard]] std::string where() const { return fmt::format("{}: tensor {}", context_, quote(key_)); }

  void begin_member(const std::string& name) {
    key_.assign(name);
    is_metadata_ = name == kMetadataKey;
    if (is_metadata_ ? std::exchange(has_metadata_, true)
                     : header_.entries.contains(name) || header_.unread.contains(name))
      fail_repeated(name);
  }

  /// A pair of short strings takes a node of a tree, which is many times its size in JSON.
  void check_metadata_count() const {
    constexpr std::uint64_t kNodeBytes = sizeof(SafetensorsMetadata::value_type) + 6 * sizeof(void*);
    constexpr std::uint64_t kAlways = std::uint64_t{1} << 20;
    if (header_.metadata.size() * kNodeBytes > kAlways + 8 * header_bytes_)
      fail("{}: {} has more than {} texts, which are too many for a header of {} bytes", context_, kMetadataKey,
           header_.metadata.size() - 1, header_bytes_);
  }

  /// Passes on an event of a tensor's entry, and completes the entry with its last event.
  template <typename Event>
  bool give(const Event& event) {
    if (is_metadata_ && depth_ > 1)
      fail("{}: {} maps {} to something that is not a string", context_, kMetadataKey, quote(key_));
    if (is_metadata_) fail("{}: {} must map strings to strings", context_, kMetadataKey);
    event(entry_);
    constexpr std::size_t kMostValues = 256;  // a valid entry has a few for each axis
    if (entry_.count() > kMostValues)
      fail("{}: its entry has more than {} values, but exactly dtype, shape and data_offsets was expected", where(),
           kMostValues);
    if (!entry_.is_complete()) return true;
    EntryParser(entry_.take(), where()).parse(key_, data_begin_, data_bytes_, header_);
    return true;
  }

  std::uint64_t header_bytes_;
  std::uint64_t data_begin_;
  std::uint64_t data_bytes_;
  std::string_view context_;
  std::string document_;
  JsonBuilder entry_;  // of the current tensor
  SafetensorsHeader header_;
  std::string key_;  // of the current member of the header, or of its metadata
  int depth_ = 0;    // of open objects and arrays
  bool is_metadata_ = false;
  bool has_metadata_ = false;
};

/// The tensors must lie back to back from `begin` to `end`.
void check_coverage(const SafetensorsHeader& header, std::uint64_t begin, std::uint64_t end, std::string_view context) {
  struct Piece {
    std::uint64_t offset;
    std::uint64_t size_bytes;
    const std::string* name;
  };
  std::vector<Piece> in_order;
  in_order.reserve(header.entries.size() + header.unread.size());
  for (const auto& [name, entry] : header.entries) in_order.push_back({entry.offset, entry.size_bytes, &name});
  for (const auto& [name, entry] : header.unread) in_order.push_back({entry.offset, entry.size_bytes, &name});
  std::ranges::sort(in_order, {}, [](const Piece& piece) { return std::pair(piece.offset, piece.size_bytes); });
  std::uint64_t cursor = begin;
  for (const Piece& piece : in_order) {
    if (piece.offset != cursor) {
      fail("{}: tensor {} begins at data byte {}, but {} was expected, where the tensor before it ends ({})", context,
           quote(*piece.name), piece.offset - begin, cursor - begin, piece.offset < cursor ? "an overlap" : "a hole");
    }
    cursor += piece.size_bytes;
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
    if (file[0] == std::byte{'{'})
      fail("{} is not a safetensors file: it begins with '{{' as JSON does, but the length of a header was expected",
           context);
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
  HeaderReader reader(length, data_begin, file.size() - data_begin, context);
  read_json_events(text, reader.document(), reader);
  SafetensorsHeader header = reader.take();
  check_coverage(header, data_begin, file.size(), context);
  return header;
}

SafetensorsFile::SafetensorsFile(MappedFile file, SafetensorsHeader header)
    : file_(std::move(file)), header_(std::move(header)) {}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  MappedFile file(path);
  SafetensorsHeader header = parse_safetensors_header(file.bytes(), path.native());
  require_whole(file.bytes());
  return {std::move(file), std::move(header)};
}

const SafetensorsEntry& SafetensorsFile::entry(std::string_view name) const {
  const auto found = header_.entries.find(name);
  if (found != header_.entries.end()) return found->second;
  const auto unread = header_.unread.find(name);
  if (unread == header_.unread.end()) fail("{} has no tensor {}", path().native(), quote(name));
  fail("{}: tensor {} is {}, which is not read; expected one of {}", path().native(), quote(name), unread->second.dtype,
       fmt::join(kReadDtypes, ", "));
}

std::span<const std::byte> SafetensorsFile::bytes(std::string_view name) const {
  const SafetensorsEntry& found = entry(name);
  return file_.bytes().subspan(found.offset, found.size_bytes);
}

HostTensor SafetensorsFile::read(std::string_view name) const {
  const SafetensorsEntry& found = entry(name);
  HostTensor tensor(found.dtype, found.shape);
  std::ranges::copy(bytes(name), tensor.bytes().begin());
  require_whole(file_.bytes());
  return tensor;
}

void SafetensorsFile::release(std::string_view name) const {
  const SafetensorsEntry& found = entry(name);
  file_.release(found.offset, found.size_bytes);
}

namespace {

/// Bytes of the elements, which are almost the whole file.
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
