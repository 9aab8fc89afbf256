#include "dissectors/protocol/syndrome.hpp"

#include <fmt/format.h>

namespace rdmawire {

std::string to_string(Syndrome syndrome) {
  switch (syndrome.kind()) {
    case syndrome_kind::ack: return "ACK";
    case syndrome_kind::rnr_nak: return fmt::format("RNR NAK, {:g} ms", static_cast<double>(syndrome.wait_ns()) / 1e6);
    case syndrome_kind::nak: {
      const Name* code = nak_code_names.find(syndrome.code());
      return code ? fmt::format("NAK {}", code->name) : fmt::format("NAK with reserved code {}", syndrome.code());
    }
    default: return fmt::format("reserved syndrome {:#04x}", syndrome.bits());
  }
}

}  // namespace rdmawire
