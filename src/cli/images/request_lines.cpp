#include "cli/images/request_lines.hpp"

#include <istream>

namespace headroom {

RequestLine read_request_line(std::istream& in, std::string& line) {
  using Traits = std::istream::traits_type;
  line.clear();
  RequestLine read = RequestLine::kEnd;
  for (auto next = in.rdbuf()->sbumpc(); next != Traits::eof(); next = in.rdbuf()->sbumpc()) {
    if (read == RequestLine::kEnd) read = RequestLine::kWhole;
    const char c = Traits::to_char_type(next);
    if (c == '\n') return read;
    if (line.size() == kMostRequestBytes)
      read = RequestLine::kTooLong;
    else
      line += c;
  }
  return read;
}

}  // namespace headroom
