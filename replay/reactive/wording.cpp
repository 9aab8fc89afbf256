#include "replay/reactive/wording.hpp"

#include <fmt/format.h>

#include "captures/analysis/findings.hpp"

namespace rdmawire::replay::reactive {
namespace {

std::string answer_words(std::uint8_t syndrome, std::int64_t psn, std::uint32_t msn) {
  const std::uint8_t kind = syndrome >> 5, code = syndrome & 31;
  const std::string at = psn < 0 ? fmt::format("PSN {}", psn) : fmt::format("PSN +{}", psn);
  if (kind == syndrome_kind::ack) return fmt::format("ACK {} MSN {}", at, msn);
  if (kind == syndrome_kind::rnr_nak)
    return fmt::format("RNR NAK, {:.2f} ms, {} MSN {}", static_cast<double>(rnr_timer_ns(code)) / 1e6, at, msn);
  for (const Name& name : nak_code_entries)
    if (kind == syndrome_kind::nak && name.value == code) return fmt::format("NAK, {}, {} MSN {}", name.name, at, msn);
  return fmt::format("AETH with syndrome {:#04x}, {} MSN {}", syndrome, at, msn);
}

}  // namespace

std::string words_of(const Message& message) {
  using tracking::MessageKind;
  const auto bytes = captures::analysis::counted(message.length, "byte", "bytes");
  switch (message.kind) {
    case MessageKind::compare_swap: return "CmpSwap";
    case MessageKind::fetch_add: return "FetchAdd";
    case MessageKind::read: return "READ of " + bytes;
    case MessageKind::write: return "WRITE of " + bytes;
    case MessageKind::terminate: return "Terminate";
    default: return "SEND of " + bytes;
  }
}

std::string words_of(const tracking::TransportPacket& t, std::int64_t psn) {
  if (t.op->operation == Operation::acknowledge) return answer_words(t.syndrome, psn, t.msn.value());
  if (t.op->operation == Operation::congestion_notification) return "CNP";
  std::string text = fmt::format("{} PSN +{}", t.op->name, psn);
  if (t.payload != 0) text += ", " + captures::analysis::counted(t.payload, "byte", "bytes");
  return text;
}

std::string words_of(const CapturedAnswer& answer) {
  return answer.cnp ? "CNP" : answer_words(answer.syndrome, answer.psn, answer.msn);
}

}  // namespace rdmawire::replay::reactive
