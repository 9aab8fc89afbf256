#include "captures/io/error.hpp"

#include "dissectors/output/printable.hpp"

namespace rdmawire::captures {

std::string to_string(const CaptureError& error) {
  std::string text;
  if (!error.file.empty()) text = output::printable(error.file) + ": ";
  if (!error.place.empty()) text += error.place + " at byte " + std::to_string(error.offset) + ": ";
  text += error.what;
  if (!error.follows.empty()) text += "; " + error.follows;
  return text;
}

std::string_view to_string(CaptureError::Kind kind) {
  using Kind = CaptureError::Kind;
  switch (kind) {
    case Kind::unreadable: return "unreadable";
    case Kind::empty: return "empty";
    case Kind::unknown_format: return "unknown format";
    case Kind::truncated: return "truncated";
    case Kind::malformed: return "malformed";
    case Kind::compression: return "compression";
    case Kind::limit: return "limit";
    case Kind::changed: return "changed";
    case Kind::write: return "write";
    case Kind::device: return "device";
    case Kind::filter: return "filter";
  }
  return "unknown";
}

}  // namespace rdmawire::captures
