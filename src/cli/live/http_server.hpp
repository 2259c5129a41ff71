#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cli/live/connection.hpp"
#include "cli/live/request_check.hpp"
#include "cli/live/request_head.hpp"

namespace headroom {

/// What is sent back: a text, or parts until there are no more.
struct HttpAnswer {
  int status = 200;
  std::string content_type;
  std::string body;
  /// Sends what comes next through `send`, which is false where nobody takes it any more; false after the last part.
  /// Where it is set, there is no body.
  using Send = std::function<bool(std::string_view)>;
  using IsOpen = std::function<bool()>;
  std::function<bool(const Send& send, const IsOpen& is_open)> next_part;
};

/// The sentence of a refusal as it is sent.
[[nodiscard]] HttpAnswer answer_with(const Refusal& refusal);

/// As much of HTTP/1.1 as a page needs: a request on each connection, which closes behind the answer, so that nothing depends on where a body
/// ends. Sockets, threads and limits are the caller's.
class HttpServer {
 public:
  /// Asked before a body is read.
  using Check = std::function<std::optional<Refusal>(const RequestHead&)>;
  using Answer = std::function<HttpAnswer(const RequestHead&, const std::string& body)>;

  HttpServer(Check check, Answer answer) : check_(std::move(check)), answer_(std::move(answer)) {}

  /// Reads one request from the connection and answers it. From any number of threads.
  void serve(Connection& connection) const;

 private:
  void answer_request(Connection& connection) const;

  Check check_;
  Answer answer_;
};

/// A whole answer in bytes, for one that is sent without a request having been read.
[[nodiscard]] std::string raw_answer(const Refusal& refusal);

}  // namespace headroom
