#include "cli/live/http_server.hpp"

#include <fmt/format.h>
#include <httplib.h>

#include <algorithm>
#include <cctype>
#include <exception>
#include <utility>

namespace headroom {
namespace {

constexpr const char* kPlainText = "text/plain; charset=utf-8";
constexpr const char* kNoRequest = "This is no request that can be answered.";

/// What every answer says: that nothing but this server's own files may be loaded, framed or kept, and by nobody else.
const httplib::Headers& safety_fields() {
  static const httplib::Headers fields = {
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
       "form-action 'none'; frame-ancestors 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"X-Frame-Options", "DENY"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Referrer-Policy", "no-referrer"},
      {"Cache-Control", "no-store"},
  };
  return fields;
}

/// A connection as cpp-httplib sees one. What could not be read whole gets no answer from there: HttpServer::serve()
/// says why.
class LibraryStream : public httplib::Stream {
 public:
  explicit LibraryStream(Connection& connection) : connection_(connection) {}

  [[nodiscard]] bool is_readable() const override { return connection_.reading() == Connection::Reading::kGoesOn; }
  [[nodiscard]] bool is_writable() const override { return connection_.is_open(); }
  ssize_t read(char* out, std::size_t bytes) override {
    const std::size_t n = connection_.read(out, bytes);
    return n == 0 && bytes != 0 ? -1 : static_cast<ssize_t>(n);
  }
  ssize_t write(const char* data, std::size_t bytes) override {
    const bool is_sent = is_readable() && connection_.write({data, bytes});
    return is_sent ? static_cast<ssize_t>(bytes) : -1;
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  [[nodiscard]] socket_t socket() const override { return 0; }  // which the library compares with FD_SETSIZE

 private:
  Connection& connection_;
};

RequestHead head_of(const httplib::Request& request) {
  RequestHead head{.method = request.method, .path = request.path, .header_fields = {}};
  for (const auto& [name, value] : request.headers) {
    std::string lower = name;
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    head.header_fields.emplace(std::move(lower), value);
  }
  return head;
}

void fill(httplib::Response& response, HttpAnswer answer) {
  response.status = answer.status;
  if (!answer.next_part) {
    response.set_content(answer.body, answer.content_type);
    return;
  }
  response.set_content_provider(
      answer.content_type, [next_part = std::move(answer.next_part)](std::size_t, httplib::DataSink& sink) {
        const HttpAnswer::Send send = [&](std::string_view part) { return sink.write(part.data(), part.size()); };
        if (!next_part(send, sink.is_writable)) sink.done();
        return true;
      });
}

}  // namespace

/// Of the library's server, which would have sockets and threads of its own, only the way from a request to its answer.
class HttpServer::Library : public httplib::Server {
 public:
  Library(Check check, Answer answer) : check_(std::move(check)), answer_(std::move(answer)) {
    svr_sock_ = 0;  // "it is running", without which the library sends no parts
    set_default_headers(safety_fields());
    set_payload_max_length(kMostBodyBytes);
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      const RequestHead head = head_of(request);
      std::optional<Refusal> refusal = check_(head);
      if (!refusal && head.method == "POST") return HandlerResponse::Unhandled;  // until its body has been read
      fill(response, refusal ? answer_with(*refusal) : answer_(head, {}));
      return HandlerResponse::Handled;
    });
    Post(".*", [this](const httplib::Request& request, httplib::Response& response) {
      fill(response, answer_(head_of(request), request.body));
    });
    set_error_handler([](const httplib::Request&, httplib::Response& response) {
      if (response.body.empty()) fill(response, answer_with({response.status, kNoRequest}));
    });
    set_exception_handler([](const httplib::Request&, httplib::Response& response, const std::exception_ptr&) {
      fill(response, answer_with({500, "The answer could not be made."}));
    });
  }

  void process(Connection& connection) {
    LibraryStream stream(connection);
    bool is_closed = true;
    process_request(stream, true, is_closed, [](httplib::Request& request) {
      // Nothing here is large: parts of an answer, or one that is compressed, would only cost time.
      request.ranges.clear();
      request.headers.erase("Accept-Encoding");
    });
  }

 private:
  Check check_;
  Answer answer_;
};

HttpAnswer answer_with(const Refusal& refusal) {
  return {.status = refusal.status, .content_type = kPlainText, .body = refusal.sentence + "\n", .next_part = {}};
}

std::string raw_answer(const Refusal& refusal) {
  const HttpAnswer answer = answer_with(refusal);
  return fmt::format("HTTP/1.1 {} Refused\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
                     answer.status, answer.content_type, answer.body.size(), answer.body);
}

HttpServer::HttpServer(Check check, Answer answer)
    : library_(std::make_unique<Library>(std::move(check), std::move(answer))) {}
HttpServer::~HttpServer() = default;

void HttpServer::serve(Connection& connection) {
  try {
    library_->process(connection);
  } catch (const std::exception&) {
    // Where there is no memory for it, say: a request ends nothing but itself.
    if (!connection.has_written()) (void)connection.write(raw_answer({503, "There was no room for the request."}));
  }
  using enum Connection::Reading;
  if (!connection.has_written()) {
    if (connection.reading() == kTooLate) (void)connection.write(raw_answer({408, "The request took too long."}));
    if (connection.reading() == kTooLong) (void)connection.write(raw_answer({431, "The request is too large."}));
  }
  connection.finish();
}

}  // namespace headroom
