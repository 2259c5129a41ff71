#include "io/tensor_source.hpp"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/files/hash.hpp"
#include "base/files/truncated_file.hpp"
#include "base/tensors/random_blocks.hpp"
#include "base/text/printable.hpp"
#include "io/gguf.hpp"
#include "io/weights_files.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

/// Bytes of one row along the outermost extent; of all for rank 0.
std::uint64_t row_bytes(const TensorSpec& tensor) {
  const std::int64_t rows = tensor.shape.rank() == 0 ? 1 : tensor.shape[0];
  return rows == 0 ? 0 : tensor.size_bytes() / static_cast<std::uint64_t>(rows);
}

/// Elements of one row along the outermost extent.
std::int64_t row_elements(const Shape& shape) {
  return shape.rank() == 0 || shape[0] == 0 ? 0 : shape.numel() / shape[0];
}

std::span<const std::byte> blocks_of_rows(std::span<const std::byte> blocks, const BlockFormat& format,
                                          const Shape& shape, TensorRows rows) {
  const std::int64_t row = row_elements(shape) / format.elements * format.bytes;
  return blocks.subspan(static_cast<std::size_t>(rows.first * row), static_cast<std::size_t>(rows.count * row));
}

Shape with_rows(const Shape& shape, std::int64_t rows) {
  Shape result = shape;
  if (shape.rank() > 0) result.set(0, rows);
  return result;
}

std::span<const std::byte> subspan_of_rows(std::span<const std::byte> bytes, const TensorSpec& tensor,
                                           TensorRows rows) {
  const std::uint64_t row = row_bytes(tensor);
  return bytes.subspan(static_cast<std::uint64_t>(rows.first) * row, static_cast<std::uint64_t>(rows.count) * row);
}

class SafetensorsSource final : public TensorSource {
 public:
  explicit SafetensorsSource(const fs::path& weights) {
    weights.extension() == ".json" ? open_shards(weights) : open_whole(weights);
  }

  [[nodiscard]] std::vector<TensorSpec> tensors() const override {
    std::vector<TensorSpec> result;
    for (const auto& [name, file] : file_of_) {
      if (files_[file].unread().contains(name)) continue;
      const SafetensorsEntry& entry = files_[file].entry(name);
      result.push_back({name, entry.dtype, entry.shape});
    }
    return result;
  }
  [[nodiscard]] std::vector<std::string> unread() const override {
    std::vector<std::string> result;
    for (const auto& [name, file] : file_of_)
      if (files_[file].unread().contains(name)) result.push_back(name);
    return result;
  }
  [[nodiscard]] std::vector<fs::path> files() const override {
    std::vector<fs::path> paths;
    for (const SafetensorsFile& file : files_) paths.push_back(file.path());
    return paths;
  }
  void fail_unread(std::string_view name) const override {
    static_cast<void>(files_[file_of_.find(name)->second].entry(name));
  }

  std::span<const std::byte> bytes(const TensorSpec& tensor) override { return file(tensor).bytes(tensor.name); }
  HostTensor read(const TensorSpec& tensor) override { return file(tensor).read(tensor.name); }
  void release(const TensorSpec& tensor) override { file(tensor).release(tensor.name); }
  std::optional<std::span<const std::byte>> view_rows(const TensorSpec& tensor, TensorRows rows) override {
    return subspan_of_rows(bytes(tensor), tensor, rows);
  }

 private:
  void open_whole(const fs::path& path) {
    files_.push_back(SafetensorsFile::open(path));
    for (const auto& [name, entry] : files_.front().entries()) file_of_.emplace(name, 0);
    for (const auto& [name, tensor] : files_.front().unread()) file_of_.emplace(name, 0);
  }

  void open_shards(const fs::path& index) {
    const fs::path folder = index.parent_path();
    std::map<std::string, std::size_t> opened;
    for (const auto& [tensor, shard] : read_index(index)) {
      if (!opened.contains(shard)) {
        if (!is_there(folder / shard)) {
          fail("{} names the shard {}, which is not there; {} holds {}", index.native(), printable_name(shard),
               folder.native(), contents_of(folder));
        }
        opened.emplace(shard, files_.size());
        files_.push_back(SafetensorsFile::open(folder / shard));
      }
      const std::size_t file = opened.at(shard);
      if (!files_[file].has(tensor)) {
        fail("{} says that {} is in {}, but it is not", index.native(), printable_name(tensor), printable_name(shard));
      }
      file_of_.emplace(tensor, file);
    }
  }

  [[nodiscard]] const SafetensorsFile& file(const TensorSpec& tensor) const { return files_[file_of_.at(tensor.name)]; }

  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::size_t, std::less<>> file_of_;
};

class GgufSource final : public TensorSource {
 public:
  explicit GgufSource(const fs::path& path) : file_(GgufFile::open(path)) {
    if (const std::optional<GgufPart>& part = file_.header().part)
      fail("{} is part {} of {} of a split model, which are not read: join them with `llama-gguf-split --merge`",
           path.native(), part->number, part->count);
  }

  [[nodiscard]] std::vector<TensorSpec> tensors() const override {
    std::vector<TensorSpec> result;
    for (const GgufTensor& tensor : file_.header().tensors)
      if (tensor.format->is_read()) result.push_back({std::string(tensor.name), dtype_of(tensor), tensor.shape});
    return result;
  }
  [[nodiscard]] std::vector<std::string> unread() const override {
    std::vector<std::string> result;
    for (const GgufTensor& tensor : file_.header().tensors)
      if (!tensor.format->is_read()) result.emplace_back(tensor.name);
    return result;
  }
  [[nodiscard]] std::vector<fs::path> files() const override { return {file_.path()}; }
  void fail_unread(std::string_view name) const override { static_cast<void>(file_.unpack(file_.tensor(name))); }
  [[nodiscard]] bool is_narrow(const TensorSpec& tensor) const override {
    const BlockFormat& format = *file_.tensor(tensor.name).format;
    return format.bytes <= 2 * format.elements;
  }

  std::span<const std::byte> bytes(const TensorSpec& tensor) override {
    const GgufTensor& stored = file_.tensor(tensor.name);
    if (is_plain(stored)) return file_.bytes(stored);
    return unpacked_.bytes(tensor.name, [&] { return file_.unpack(stored); });
  }

  HostTensor read(const TensorSpec& tensor) override {
    const GgufTensor& stored = file_.tensor(tensor.name);
    if (!is_plain(stored)) return file_.unpack(stored);
    HostTensor result(tensor.dtype, tensor.shape);
    std::ranges::copy(file_.bytes(stored), result.bytes().begin());
    require_whole(file_.bytes(stored));
    return result;
  }

  void release(const TensorSpec& tensor) override {
    file_.release(file_.tensor(tensor.name));
    unpacked_.release(tensor.name);
  }

  [[nodiscard]] const BlockFormat* block_format(const TensorSpec& tensor) const override {
    const GgufTensor& stored = file_.tensor(tensor.name);
    if (is_plain(stored) || row_elements(tensor.shape) % stored.format->elements != 0) return nullptr;
    return stored.format;
  }
  std::span<const std::byte> blocks(const TensorSpec& tensor, TensorRows rows) override {
    const GgufTensor& stored = file_.tensor(tensor.name);
    return blocks_of_rows(file_.bytes(stored), *stored.format, tensor.shape, rows);
  }

  std::optional<std::span<const std::byte>> view_rows(const TensorSpec& tensor, TensorRows rows) override {
    if (!is_plain(file_.tensor(tensor.name))) return std::nullopt;
    return subspan_of_rows(bytes(tensor), tensor, rows);
  }

  /// Unpacks the blocks of these rows alone, unless a block has elements of other rows too.
  HostTensor read_rows(const TensorSpec& tensor, TensorRows rows) override {
    const GgufTensor& stored = file_.tensor(tensor.name);
    const std::int64_t row = row_elements(tensor.shape), block = stored.format->elements;
    if (is_plain(stored)) return TensorSource::read_rows(tensor, rows);
    HostTensor values(DType::kF32, with_rows(tensor.shape, rows.count));
    if (rows.first * row % block != 0 || rows.count * row % block != 0) {
      const HostTensor all = file_.unpack(stored);
      std::ranges::copy(subspan_of_rows(all.bytes(), tensor, rows), values.bytes().begin());
      return values;
    }
    const auto bytes_of = [&](std::int64_t count) {
      return static_cast<std::size_t>(count * row / block * stored.format->bytes);
    };
    unpack_blocks(*stored.format, file_.bytes(stored).subspan(bytes_of(rows.first), bytes_of(rows.count)),
                  values.as<float>());
    require_whole(file_.bytes(stored));
    return values;
  }

 private:
  static DType dtype_of(const GgufTensor& tensor) {
    return parse_safetensors_dtype(tensor.format->name).value_or(DType::kF32);
  }
  /// Whether the elements are in the file as they are read: F32, F16 or BF16.
  static bool is_plain(const GgufTensor& tensor) { return tensor.format->elements == 1; }

  GgufFile file_;
  MadeTensors unpacked_;
};

class RandomSource final : public TensorSource {
 public:
  RandomSource(std::vector<TensorSpec> tensors, std::uint64_t seed, const BlockFormat* format)
      : tensors_(std::move(tensors)), seed_(seed), format_(format) {
    for (TensorSpec& tensor : tensors_)
      if (block_format(tensor) != nullptr) tensor.dtype = DType::kF32;  // which they are unpacked to
  }

  [[nodiscard]] std::vector<TensorSpec> tensors() const override { return tensors_; }
  [[nodiscard]] std::optional<NormalStream> normal_stream(const TensorSpec& tensor) const override {
    return block_format(tensor) != nullptr ? std::nullopt : std::optional(stream_of(tensor));
  }
  [[nodiscard]] bool is_narrow(const TensorSpec& tensor) const override {
    return block_format(tensor) != nullptr || TensorSource::is_narrow(tensor);
  }
  /// Matrices alone are in blocks.
  [[nodiscard]] const BlockFormat* block_format(const TensorSpec& tensor) const override {
    const bool fits = format_ != nullptr && tensor.shape.rank() == 2 && tensor.shape[1] % format_->elements == 0;
    return fits ? format_ : nullptr;
  }
  std::span<const std::byte> blocks(const TensorSpec& tensor, TensorRows rows) override {
    const std::span<const std::byte> all = made_blocks_.bytes(tensor.name, [&] {
      HostTensor made(DType::kU8, {tensor.shape.numel() / format_->elements * format_->bytes});
      const auto count = static_cast<std::uint64_t>(made.numel()) / static_cast<std::uint64_t>(format_->bytes);
      const NormalStream stream = stream_of(tensor);
      share(count, [&](std::uint64_t begin, std::uint64_t end) {
        draw_blocks(*format_, stream, begin,
                    made.bytes().subspan(begin * static_cast<std::uint64_t>(format_->bytes),
                                         (end - begin) * static_cast<std::uint64_t>(format_->bytes)));
      });
      return made;
    });
    return blocks_of_rows(all, *format_, tensor.shape, rows);
  }

  [[nodiscard]] NormalStream stream_of(const TensorSpec& tensor) const {
    const bool is_gain =
        tensor.shape.rank() == 1 && (tensor.name.ends_with(".weight") || tensor.name.ends_with(".running_var"));
    return NormalStream{
        .seed = seed_, .stream = Hasher().add(tensor.name).digest(), .mean = is_gain ? 1.0F : 0.0F, .deviation = 0.02F};
  }

  std::span<const std::byte> bytes(const TensorSpec& tensor) override {
    return made_.bytes(tensor.name, [&] { return read(tensor); });
  }

  HostTensor read(const TensorSpec& tensor) override {
    HostTensor result(tensor.dtype, tensor.shape);
    if (block_format(tensor) != nullptr) {
      unpack_blocks(*format_, blocks(tensor, {0, tensor.shape[0]}), result.as<float>());
      return result;
    }
    share(static_cast<std::uint64_t>(tensor.shape.numel()),
          [&](std::uint64_t begin, std::uint64_t end) { fill(tensor, result, begin, end); });
    return result;
  }

  void release(const TensorSpec& tensor) override {
    made_.release(tensor.name);
    made_blocks_.release(tensor.name);
  }

 private:
  /// Calls run(begin, end) for parts of `count` elements or blocks on several threads: each depends only on its index.
  template <typename Run>
  static void share(std::uint64_t count, const Run& run) {
    constexpr std::uint64_t kPerThread = std::uint64_t{1} << 20;
    const std::uint64_t cores = std::max(1U, std::thread::hardware_concurrency());
    const std::uint64_t parts = std::clamp<std::uint64_t>(count / kPerThread, 1, cores);
    std::vector<std::jthread> threads;
    for (std::uint64_t i = 1; i < parts; ++i)
      threads.emplace_back([&, i] { run(count * i / parts, count * (i + 1) / parts); });
    run(0, count / parts);
    threads.clear();  // joins
  }

  /// Fills elements [begin, end) of `result`.
  void fill(const TensorSpec& tensor, HostTensor& result, std::uint64_t begin, std::uint64_t end) const {
    store_normal(result.bytes().data() + begin * size_of(tensor.dtype), tensor.dtype, end - begin,
                 *normal_stream(tensor), begin);
  }

  std::vector<TensorSpec> tensors_;
  std::uint64_t seed_;
  const BlockFormat* format_;
  MadeTensors made_, made_blocks_;
};

class MemorySource final : public TensorSource {
 public:
  MemorySource(std::vector<TensorInMemory> tensors, std::shared_ptr<const void> owner, FinishTensor finish)
      : owner_(std::move(owner)), finish_(std::move(finish)) {
    for (TensorInMemory& tensor : tensors) {
      if (tensor.bytes.size() != tensor.tensor.size_bytes())
        fail("the weight {} has {} bytes, and as {}{} takes {}", printable_name(tensor.tensor.name),
             tensor.bytes.size(), tensor.tensor.dtype, tensor.tensor.shape, tensor.tensor.size_bytes());
      std::string name = tensor.tensor.name;
      tensors_.emplace(std::move(name), Held{std::move(tensor)});
    }
  }

  [[nodiscard]] std::vector<TensorSpec> tensors() const override {
    std::vector<TensorSpec> specs;
    for (const auto& [name, held] : tensors_) specs.push_back(held.tensor);
    return specs;
  }

  std::span<const std::byte> bytes(const TensorSpec& tensor) override {
    const Held& held = find(tensor);
    HR_CHECK(!held.is_on_device);
    return held.bytes;
  }
  [[nodiscard]] std::optional<std::span<const std::byte>> device_bytes(const TensorSpec& tensor) const override {
    const Held& held = find(tensor);
    if (!held.is_on_device) return std::nullopt;
    return held.bytes;
  }
  [[nodiscard]] bool is_freed(const TensorSpec& tensor) const override {
    return finish_ && !tensors_.find(tensor.name)->second.is_finished;
  }
  void finish(const TensorSpec& tensor) override {
    Held& held = tensors_.at(tensor.name);
    if (!finish_ || std::exchange(held.is_finished, true)) return;
    held.is_gone = true;  // also if finish_ throws
    if (const auto moved = finish_(tensor.name)) {
      HR_CHECK_EQ(moved->size(), held.bytes.size());
      held.bytes = *moved;
      held.is_on_device = held.is_gone = false;
    }
  }
  HostTensor read(const TensorSpec& tensor) override {
    HostTensor result(tensor.dtype, tensor.shape);
    std::ranges::copy(bytes(tensor), result.bytes().begin());
    return result;
  }
  void release(const TensorSpec& /*tensor*/) override {}
  std::optional<std::span<const std::byte>> view_rows(const TensorSpec& tensor, TensorRows rows) override {
    return subspan_of_rows(bytes(tensor), tensor, rows);
  }

 private:
  struct Held : TensorInMemory {
    bool is_finished = false;
    bool is_gone = false;
  };
  [[nodiscard]] const Held& find(const TensorSpec& tensor) const {
    const Held& held = tensors_.find(tensor.name)->second;
    if (held.is_gone)
      fail("the weight {} was freed when it had been loaded, and another size or pass needs it in another format",
           printable_name(tensor.name));
    return held;
  }

  std::map<std::string, Held, std::less<>> tensors_;
  std::shared_ptr<const void> owner_;
  FinishTensor finish_;
};

HostTensor transposed(const HostTensor& matrix, const Shape& shape) {
  HR_CHECK_EQ(matrix.shape().rank(), 2);
  const auto rows = static_cast<std::size_t>(matrix.shape()[0]), columns = static_cast<std::size_t>(matrix.shape()[1]);
  const std::size_t size = size_of(matrix.dtype());
  HostTensor result(matrix.dtype(), shape);
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t column = 0; column < columns; ++column)
      std::memcpy(result.bytes().data() + (column * rows + row) * size,
                  matrix.bytes().data() + (row * columns + column) * size, size);
  return result;
}

class RenamedSource final : public TensorSource {
 public:
  RenamedSource(std::shared_ptr<TensorSource> source, std::vector<RenamedTensor> tensors) : source_(std::move(source)) {
    for (RenamedTensor& tensor : tensors) {
      std::int64_t rows = 0;
      for (const TensorRows& range : tensor.rows) {
        HR_CHECK_LE(range.first + range.count, tensor.stored.shape.rank() == 0 ? 1 : tensor.stored.shape[0]);
        rows += range.count;
      }
      HR_CHECK_EQ(static_cast<std::uint64_t>(rows) * row_bytes(tensor.stored), tensor.tensor.size_bytes());
      std::string name = tensor.tensor.name;
      tensors_.emplace(std::move(name), std::move(tensor));
    }
  }

  [[nodiscard]] std::vector<TensorSpec> tensors() const override {
    std::vector<TensorSpec> specs;
    for (const auto& [name, tensor] : tensors_) specs.push_back(tensor.tensor);
    return specs;
  }
  [[nodiscard]] std::vector<fs::path> files() const override { return source_->files(); }
  [[nodiscard]] bool is_narrow(const TensorSpec& tensor) const override {
    return source_->is_narrow(tensors_.find(tensor.name)->second.stored);
  }

  std::span<const std::byte> bytes(const TensorSpec& tensor) override {
    const RenamedTensor& renamed = tensors_.at(tensor.name);
    if (!is_copied(renamed))
      if (const auto view = source_->view_rows(renamed.stored, renamed.rows.front())) return *view;
    return made_.bytes(tensor.name, [&] { return read(tensor); });
  }

  HostTensor read(const TensorSpec& tensor) override {
    const RenamedTensor& renamed = tensors_.at(tensor.name);
    if (renamed.is_transposed) return transposed(source_->read(renamed.stored), tensor.shape);
    HostTensor result(tensor.dtype, tensor.shape);
    auto out = result.bytes().begin();
    for (const TensorRows& rows : renamed.rows)
      out = std::ranges::copy(source_->read_rows(renamed.stored, rows).bytes(), out).out;
    return result;
  }

  /// That of the stored tensor, if the tensor's rows are whole rows of it.
  [[nodiscard]] const BlockFormat* block_format(const TensorSpec& tensor) const override {
    const RenamedTensor& renamed = tensors_.find(tensor.name)->second;
    const bool has_rows = !renamed.is_transposed && row_elements(tensor.shape) == row_elements(renamed.stored.shape);
    return has_rows ? source_->block_format(renamed.stored) : nullptr;
  }
  std::span<const std::byte> blocks(const TensorSpec& tensor, TensorRows rows) override {
    const RenamedTensor& renamed = tensors_.at(tensor.name);
    if (renamed.rows.size() == 1)
      return source_->blocks(renamed.stored, {renamed.rows.front().first + rows.first, rows.count});
    const std::span<const std::byte> all = made_blocks_.bytes(tensor.name, [&] {
      const BlockFormat& format = *block_format(tensor);
      HostTensor made(DType::kU8, {tensor.shape.numel() / format.elements * format.bytes});
      auto out = made.bytes().begin();
      for (const TensorRows& range : renamed.rows)
        out = std::ranges::copy(source_->blocks(renamed.stored, range), out).out;
      return made;
    });
    return blocks_of_rows(all, *block_format(tensor), tensor.shape, rows);
  }

  void release(const TensorSpec& tensor) override {
    source_->release(tensors_.at(tensor.name).stored);
    made_.release(tensor.name);
    made_blocks_.release(tensor.name);
  }

 private:
  static bool is_copied(const RenamedTensor& tensor) { return tensor.is_transposed || tensor.rows.size() != 1; }

  std::shared_ptr<TensorSource> source_;
  std::map<std::string, RenamedTensor, std::less<>> tensors_;
  MadeTensors made_, made_blocks_;
};

}  // namespace

HostTensor TensorSource::read_rows(const TensorSpec& tensor, TensorRows rows) {
  HostTensor result(tensor.dtype, with_rows(tensor.shape, rows.count));
  const std::span<const std::byte> all = bytes(tensor);
  std::ranges::copy(subspan_of_rows(all, tensor, rows), result.bytes().begin());
  require_whole(all);
  return result;
}

std::span<const std::byte> TensorSource::blocks(const TensorSpec& tensor, TensorRows /*rows*/) {
  fail("{} is not stored in blocks", printable_name(tensor.name));
}

std::span<const std::byte> MadeTensors::bytes(const std::string& name, const std::function<HostTensor()>& make) {
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = made_.find(name); found != made_.end()) return found->second.bytes();
  }
  HostTensor made = make();  // without the lock: another thread may make another tensor
  const std::scoped_lock lock(mutex_);
  return made_.emplace(name, std::move(made)).first->second.bytes();
}

void MadeTensors::release(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  made_.erase(name);
}

std::shared_ptr<TensorSource> open_safetensors(const fs::path& path) {
  return std::make_shared<SafetensorsSource>(path);
}

std::shared_ptr<TensorSource> open_gguf(const fs::path& path) { return std::make_shared<GgufSource>(path); }

std::shared_ptr<TensorSource> open_weights_file(const fs::path& path) {
  if (path.native().ends_with(".index.json")) return open_safetensors(path);
  const bool is_packed = [&] {
    const MappedFile file(path);
    if (is_pickle(file.bytes())) refuse_pickle(path);
    return is_gguf(file.bytes());
  }();
  return is_packed ? open_gguf(path) : open_safetensors(path);
}

std::shared_ptr<TensorSource> make_random_tensors(std::vector<TensorSpec> tensors, std::uint64_t seed,
                                                  const BlockFormat* format) {
  return std::make_shared<RandomSource>(std::move(tensors), seed, format);
}

std::shared_ptr<TensorSource> tensors_in_memory(std::vector<TensorInMemory> tensors, std::shared_ptr<const void> owner,
                                                FinishTensor finish) {
  return std::make_shared<MemorySource>(std::move(tensors), std::move(owner), std::move(finish));
}

std::shared_ptr<TensorSource> rename_tensors(std::shared_ptr<TensorSource> source, std::vector<RenamedTensor> tensors) {
  return std::make_shared<RenamedSource>(std::move(source), std::move(tensors));
}

bool is_pickle(std::span<const std::byte> file) {
  const std::string_view begin(reinterpret_cast<const char*>(file.data()), std::min<std::size_t>(file.size(), 4));
  return begin == "PK\3\4" || begin.starts_with("\x80\x02");
}

void refuse_pickle(const fs::path& path) {
  fail(
      "{} is a pickle of PyTorch, which may run any program when it is opened, and is not read: give the model as "
      "safetensors",
      path.native());
}

}  // namespace headroom
