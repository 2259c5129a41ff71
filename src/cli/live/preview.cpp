#include "cli/live/preview.hpp"

#include <sys/resource.h>

#include <utility>

#include "media/jpeg_encoder.hpp"

namespace headroom {
namespace {

constexpr std::chrono::milliseconds kUntilLookingUp(100);  // to check whether to stop
constexpr double kFastStream = 120;                        // frames per second

}  // namespace

Preview::Viewer::Viewer(Preview& preview) : preview_(preview) {
  {
    const std::lock_guard lock(preview_.mutex_);
    ++preview_.viewers_;
  }
  preview_.changed_.notify_all();
}

Preview::Viewer::~Viewer() {
  const std::lock_guard lock(preview_.mutex_);
  --preview_.viewers_;
}

Preview::Preview(LiveView& view, std::chrono::milliseconds interval)
    : view_(view), interval_(interval), thread_([this] { work(); }) {}

Preview::~Preview() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::shared_ptr<const PreviewFrame> Preview::wait_for_frame(std::int64_t after_serial,
                                                            std::chrono::milliseconds at_most) {
  std::unique_lock lock(mutex_);
  const auto is_newer = [&] { return newest_ && newest_->serial > after_serial; };
  changed_.wait_for(lock, at_most, [&] { return is_newer() || has_ended_ || is_stopping_; });
  return is_newer() ? newest_ : nullptr;
}

bool Preview::has_ended() const {
  const std::lock_guard lock(mutex_);
  return has_ended_;
}

void Preview::publish(const LiveView::Frame& frame) {
  constexpr std::int64_t kSmall = 128 * 128;  // pixels; in a small image each pixel is visible
  const auto width = static_cast<int>(view_.facts().width), height = static_cast<int>(view_.facts().height);
  const int quality = view_.facts().width * view_.facts().height <= kSmall ? 98 : 90;
  auto made =
      std::make_shared<const PreviewFrame>(PreviewFrame{.serial = frame.serial,
                                                        .input = encode_jpeg(frame.input, width, height, quality),
                                                        .output = encode_jpeg(frame.output, width, height, quality)});
  {
    const std::lock_guard lock(mutex_);
    newest_ = std::move(made);
  }
  changed_.notify_all();
}

void Preview::work() {
  give_way_to_other_threads();
  LiveView::Frame frame;
  std::unique_ptr<LiveView::Watching> watching;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (viewers_ == 0) watching.reset();
      changed_.wait(lock, [&] { return is_stopping_ || viewers_ > 0; });
      if (is_stopping_) return;
    }
    if (!watching) watching = std::make_unique<LiveView::Watching>(view_);
    const auto next = std::chrono::steady_clock::now() + interval_;
    if (view_.wait_for_frame(frame.serial, kUntilLookingUp, frame)) {
      publish(frame);
    } else if (view_.counters().ended) {
      const std::lock_guard lock(mutex_);
      has_ended_ = true;
      changed_.notify_all();
      return;
    }
    // For a fast stream, copies only frames that are viewed.
    if (view_.counters().fps > kFastStream) watching.reset();
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, next, [&] { return is_stopping_; });
  }
}

void give_way_to_other_threads() {
  constexpr int kNice = 10;
  ::setpriority(PRIO_PROCESS, 0, kNice);  // on Linux, only for this thread
}

}  // namespace headroom
