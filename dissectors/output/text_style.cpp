#include "dissectors/output/text_style.hpp"

namespace rdmawire::output {

std::string_view escape_of(TextStyle ink) {
  switch (ink) {
    case TextStyle::plain: return "\033[0m";
    case TextStyle::dim: return "\033[2m";
    case TextStyle::strong: return "\033[1m";
    case TextStyle::request: return "\033[36m";
    case TextStyle::response: return "\033[32m";
    case TextStyle::good: return "\033[2;32m";
    case TextStyle::notice: return "\033[33m";
    case TextStyle::bad: return "\033[1;31m";
    case TextStyle::link: return "\033[34m";
    case TextStyle::network: return "\033[35m";
    case TextStyle::transport: return "\033[33m";
    case TextStyle::rdma: return "\033[36m";
    case TextStyle::upper: return "\033[32m";
    case TextStyle::payload: return {};
  }
  return {};
}

}  // namespace rdmawire::output
