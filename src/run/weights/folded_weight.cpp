#include "run/weights/folded_weight.hpp"

namespace headroom {

FoldedWeight::FoldedWeight(Backend& backend, std::size_t bytes)
    : buffer_(backend.reserve(bytes, MemoryCategory::kWeights)) {}

void FoldedWeight::unload(Backend& backend, Stream& stream) {
  if (host_copy_ == nullptr) host_copy_ = backend.make_host_copy(buffer_.bytes());
  if (host_copy_ != nullptr && is_folded_ && !has_host_copy_) {
    host_copy_->save(stream, buffer_.at());
    has_host_copy_ = true;
  }
  buffer_.unload();
  is_folded_ = false;
}

void FoldedWeight::reload(Stream& stream) {
  if (!buffer_.is_loaded()) buffer_.reload();
  if (!has_host_copy_) return;
  host_copy_->restore(stream, buffer_.at());
  is_folded_ = true;
}

}  // namespace headroom
