#include "cli/live/server.hpp"

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <array>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "cli/live/assets.hpp"
#include "cli/live/http_server.hpp"
#include "cli/live/listener.hpp"
#include "cli/live/preview.hpp"
#include "cli/live/request_check.hpp"
#include "cli/live/status.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kMostJpegPixels = 65'500;        // in a row or column
constexpr std::chrono::milliseconds kUntilAsking(200);  // to check whether a viewer is still connected
constexpr std::string_view kBoundary = "frame";

/// 128 unpredictable bits, in hexadecimal.
std::string draw_token() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    fail("cannot serve the page: the system has no random numbers");
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

std::string page_with(std::string_view token) {
  constexpr std::string_view kPlace = "{{token}}";
  std::string page(live_html());
  page.replace(page.find(kPlace), kPlace.size(), token);
  return page;
}

HttpAnswer text_answer(std::string content_type, std::string_view body) {
  return {.status = 200, .content_type = std::move(content_type), .body = std::string(body), .next_part = {}};
}

}  // namespace

class LiveServer::Work {
 public:
  Work(LiveView& view, const LiveAddress& address, const LiveServerOptions& options)
      : view_(view),
        options_(options),
        listener_(address),
        token_(draw_token()),
        page_(page_with(token_)),
        preview_(view, options.preview_interval),
        http_([this](const RequestHead& head) { return check_request(head, listener_.address(), token_); },
              [this](const RequestHead& head, const std::string& body) { return answer(head, body); }) {
    try {
      for (std::size_t i = 0; i < options.most_viewers + options.most_others; ++i)
        workers_.emplace_back([this] { serve_connections(); });
      accepting_ = std::thread([this] { accept_connections(); });
    } catch (...) {  // no more threads can be started
      end();
      throw;
    }
  }

  ~Work() { end(); }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  [[nodiscard]] const LiveAddress& address() const { return listener_.address(); }

 private:
  void end() {
    listener_.stop();
    if (accepting_.joinable()) accepting_.join();
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
      for (const int descriptor : open_) ::shutdown(descriptor, SHUT_RDWR);  // wakes its waiting thread
    }
    has_work_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  void accept_connections() {
    for (int descriptor = listener_.accept(); descriptor >= 0; descriptor = listener_.accept()) {
      const std::lock_guard lock(mutex_);
      if (open_.size() == workers_.size() + options_.most_waiting) {
        send_and_close(descriptor, raw_answer({503, "Too many requests are being answered: try again."}));
        continue;
      }
      open_.insert(descriptor);
      waiting_.push_back(descriptor);
      has_work_.notify_one();
    }
  }

  void serve_connections() {
    give_way_to_other_threads();
    for (;;) {
      int descriptor = -1;
      {
        std::unique_lock lock(mutex_);
        has_work_.wait(lock, [&] { return is_stopping_ || !waiting_.empty(); });
        if (waiting_.empty()) return;
        descriptor = waiting_.front();
        waiting_.pop_front();
      }
      Connection connection(descriptor, options_.limits);
      http_.serve(connection);
      const std::lock_guard lock(mutex_);
      open_.erase(descriptor);  // before it is closed, because the number may be reused afterwards
    }
  }

  HttpAnswer answer(const RequestHead& head, const std::string& body) {
    switch (find_resource(head.path).value()) {
      case LiveResource::kPage:
        return text_answer("text/html; charset=utf-8", page_);
      case LiveResource::kScript:
        return text_answer("text/javascript; charset=utf-8", live_js());
      case LiveResource::kStyle:
        return text_answer("text/css; charset=utf-8", live_css());
      case LiveResource::kIcon:
        return text_answer("image/svg+xml", live_icon_svg());
      case LiveResource::kStatus:
        return status();
      case LiveResource::kInput:
        return pictures(&PreviewFrame::input);
      case LiveResource::kOutput:
        return pictures(&PreviewFrame::output);
      case LiveResource::kControls:
        return change(body);
    }
    HR_CHECK(false);
  }

  HttpAnswer status() { return text_answer("application/json", dump_json(live_status(view_))); }

  HttpAnswer change(const std::string& body) {
    try {
      const std::lock_guard lock(changing_);  // two browsers may each change one value
      view_.want(change_controls(body, "the request", view_.goal()));
    } catch (const Error& error) {
      return answer_with({400, error.what()});
    }
    return status();
  }

  /// Images of the input or the output; a viewer gets the newest one after taking the last.
  HttpAnswer pictures(std::string PreviewFrame::*side) {
    std::shared_ptr<Viewing> viewing = begin_viewing();
    if (!viewing)
      return answer_with(
          {503, fmt::format("There are {} viewers, which is the most; close another page.", options_.most_viewers)});
    HttpAnswer answer;
    answer.content_type = fmt::format("multipart/x-mixed-replace; boundary={}", kBoundary);
    answer.next_part = [this, side, viewing](const HttpAnswer::Send& send, const HttpAnswer::IsOpen& is_open) {
      if (!viewing->has_begun) {
        viewing->has_begun = true;
        return send(fmt::format("--{}\r\n", kBoundary));
      }
      const std::shared_ptr<const PreviewFrame> frame = preview_.wait_for_frame(viewing->serial, kUntilAsking);
      if (!frame) return !preview_.has_ended() && is_open();
      viewing->serial = frame->serial;
      const std::string& jpeg = (*frame).*side;
      // Sent together with the next boundary: browsers show an image only when they have seen its end.
      return send(fmt::format("Content-Type: image/jpeg\r\nContent-Length: {}\r\n\r\n", jpeg.size())) && send(jpeg) &&
             send(fmt::format("\r\n--{}\r\n", kBoundary));
    };
    return answer;
  }

  /// The state of one viewer of images: its slot among the viewers, and the last frame it has seen.
  struct Viewing {
    explicit Viewing(Work& of) : work(of), viewer(of.preview_) {}
    ~Viewing() {
      const std::lock_guard lock(work.mutex_);
      --work.viewers_;
    }
    Viewing(const Viewing&) = delete;
    Viewing& operator=(const Viewing&) = delete;

    Work& work;
    Preview::Viewer viewer;
    bool has_begun = false;
    std::int64_t serial = 0;
  };
  /// Null if the maximum number of viewers is reached.
  std::shared_ptr<Viewing> begin_viewing() {
    {
      const std::lock_guard lock(mutex_);
      if (viewers_ == options_.most_viewers) return nullptr;
      ++viewers_;
    }
    return std::make_shared<Viewing>(*this);
  }

  LiveView& view_;
  const LiveServerOptions options_;
  Listener listener_;
  const std::string token_;
  const std::string page_;
  Preview preview_;
  HttpServer http_;

  std::mutex changing_;
  std::mutex mutex_;  // guards everything below
  std::condition_variable has_work_;
  bool is_stopping_ = false;
  std::size_t viewers_ = 0;
  std::set<int> open_;       // all connections, including waiting ones
  std::deque<int> waiting_;  // for a worker
  std::vector<std::thread> workers_;
  std::thread accepting_;
};

LiveServer::LiveServer(LiveView& view, const LiveAddress& address, const LiveServerOptions& options) {
  const StreamFacts& facts = view.facts();
  if (facts.width > kMostJpegPixels || facts.height > kMostJpegPixels)
    fail_usage("--live shows frames of at most {0} x {0} pixels, and these have {1} x {2}", kMostJpegPixels,
               facts.width, facts.height);
  work_ = std::make_unique<Work>(view, address, options);
}
LiveServer::~LiveServer() = default;

const LiveAddress& LiveServer::address() const { return work_->address(); }

void announce(const Log& log, const LiveServer& server) {
  const LiveAddress& address = server.address();
  if (is_loopback(address)) {
    log.info("the stream is on http://{}", authority_of(address));
    return;
  }
  log.info("the stream is on http://{} and http://localhost:{}", authority_of(address), address.port);
  log.warning("whoever reaches {} can see the stream and change it",
              is_wildcard(address) ? fmt::format("port {} of this machine, by any of its addresses,", address.port)
                                   : authority_of(address));
}

}  // namespace headroom
