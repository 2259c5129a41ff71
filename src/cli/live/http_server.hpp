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

/// An answer: a text, or a sequence of parts.
struct HttpAnswer {
  int status = 200;
  std::string content_type;
  std::string body;
  /// Sends the next part through `send`, which returns false if the client takes no more. Returns false after the
  /// last part. If it is set, there is no body.
  using Send = std::function<bool(std::string_view)>;
  using IsOpen = std::function<bool()>;
  std::function<bool(const Send& send, const IsOpen& is_open)> next_part;
};

/// A refusal as an answer, with its sentence.
[[nodiscard]] HttpAnswer answer_with(const Refusal& refusal);

/// The part of HTTP/1.1 that a page needs: one request per connection, which closes after the answer, so that
/// nothing depends on where a body ends. Sockets, threads and limits belong to the caller.
class HttpServer {
 public:
  /// Called before a body is read.
  using Check = std::function<std::optional<Refusal>(const RequestHead&)>;
  using Answer = std::function<HttpAnswer(const RequestHead&, const std::string& body)>;

  HttpServer(Check check, Answer answer) : check_(std::move(check)), answer_(std::move(answer)) {}

  /// Reads one request from the connection and answers it. Thread-safe.
  void serve(Connection& connection) const;

 private:
  void answer_request(Connection& connection) const;

  Check check_;
  Answer answer_;
};

/// The bytes of a whole answer, to be sent without having read a request.
[[nodiscard]] std::string raw_answer(const Refusal& refusal);

}  // namespace headroom
