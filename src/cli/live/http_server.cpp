#include "cli/live/http_server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <exception>

namespace headroom {
namespace {

constexpr const char* kPlainText = "text/plain; charset=utf-8";
constexpr std::string_view kEndOfHead = "\r\n\r\n";

/// Security headers of every answer: only this server's own files may be loaded, and nothing may be framed or
/// cached.
constexpr std::string_view kSafetyFields =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "X-Frame-Options: DENY\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cache-Control: no-store\r\n";

/// The head of an answer. If the body comes in parts, the end of the connection ends it.
std::string head_of(const HttpAnswer& answer) {
  const std::string length = answer.next_part ? "" : fmt::format("Content-Length: {}\r\n", answer.body.size());
  return fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\n{}{}Connection: close\r\n\r\n", answer.status,
                     answer.status == 200 ? "OK" : "Refused", answer.content_type, length, kSafetyFields);
}

/// Reads until `request` has the whole head. Returns the length of the head, including the last line end, or 0 if
/// it does not arrive.
std::size_t read_head(Connection& connection, std::string& request) {
  char buffer[4096];
  for (;;) {
    const std::size_t n = connection.read(buffer, sizeof buffer);
    if (n == 0) return 0;
    const std::size_t known = request.size() - std::min(request.size(), kEndOfHead.size() - 1);
    request.append(buffer, n);
    if (const std::size_t end = request.find(kEndOfHead, known); end != std::string::npos) return end + 2;
  }
}

/// The body size of a request; empty if it is invalid or too large. Only a POST may have a body.
std::optional<std::size_t> body_bytes_of(const RequestHead& head) {
  if (head.method != "POST") return 0;
  const auto field = head.header_fields.find("content-length");
  if (field == head.header_fields.end()) return 0;
  const std::string& text = field->second;
  std::size_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error != std::errc() || end != text.data() + text.size() || bytes > kMostBodyBytes) return std::nullopt;
  return bytes;
}

/// Reads the whole body; false if it does not arrive.
bool read_body(Connection& connection, std::size_t bytes, std::string& body) {
  while (body.size() < bytes) {
    char buffer[4096];
    const std::size_t n = connection.read(buffer, std::min(sizeof buffer, bytes - body.size()));
    if (n == 0) return false;
    body.append(buffer, n);
  }
  body.resize(bytes);  // further bytes are ignored
  return true;
}

void send(Connection& connection, const HttpAnswer& answer, bool with_body = true) {
  if (!connection.write(head_of(answer)) || !with_body) return;
  if (!answer.next_part) {
    (void)connection.write(answer.body);
    return;
  }
  const HttpAnswer::Send send_part = [&](std::string_view part) { return connection.write(part); };
  const HttpAnswer::IsOpen is_open = [&] { return connection.is_open(); };
  while (answer.next_part(send_part, is_open)) {
  }
}

}  // namespace

HttpAnswer answer_with(const Refusal& refusal) {
  return {.status = refusal.status, .content_type = kPlainText, .body = refusal.sentence + "\n", .next_part = {}};
}

std::string raw_answer(const Refusal& refusal) {
  const HttpAnswer answer = answer_with(refusal);
  return head_of(answer) + answer.body;
}

void HttpServer::answer_request(Connection& connection) const {
  const Refusal no_request{400, "This is no request that can be answered."};
  std::string request;
  const std::size_t end_of_head = read_head(connection, request);
  if (end_of_head == 0) {
    if (!request.empty() && connection.reading() == Connection::Reading::kEnded)
      send(connection, answer_with(no_request));
    return;
  }
  const std::optional<RequestHead> head = parse_request_head(std::string_view(request).substr(0, end_of_head));
  if (!head) return send(connection, answer_with(no_request));
  const bool with_body = head->method != "HEAD";
  if (const std::optional<Refusal> refusal = check_(*head)) return send(connection, answer_with(*refusal), with_body);
  const std::optional<std::size_t> bytes = body_bytes_of(*head);
  if (!bytes) return send(connection, answer_with(no_request), with_body);
  std::string body = request.substr(end_of_head + kEndOfHead.size() / 2);
  if (!read_body(connection, *bytes, body)) return;
  send(connection, answer_(*head, body), with_body);
}

void HttpServer::serve(Connection& connection) const {
  try {
    answer_request(connection);
  } catch (const std::exception&) {
    // On a failure such as lack of memory, only this request ends.
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
