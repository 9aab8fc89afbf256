#include "dissectors/output/text_style.hpp"

namespace rdmawire::faces {

std::string_view escape_of(Ink ink) {
  switch (ink) {
    case Ink::plain: return "\033[0m";
    case Ink::dim: return "\033[2m";
    case Ink::strong: return "\033[1m";
    case Ink::request: return "\033[36m";
    case Ink::response: return "\033[32m";
    case Ink::good: return "\033[2;32m";
    case Ink::notice: return "\033[33m";
    case Ink::bad: return "\033[1;31m";
    case Ink::link: return "\033[34m";
    case Ink::network: return "\033[35m";
    case Ink::transport: return "\033[33m";
    case Ink::rdma: return "\033[36m";
    case Ink::upper: return "\033[32m";
    case Ink::payload: return {};
  }
  return {};
}

}  // namespace rdmawire::faces
