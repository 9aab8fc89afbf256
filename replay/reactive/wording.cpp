#include "replay/reactive/wording.hpp"

#include <fmt/format.h>

#include "captures/analysis/findings.hpp"

namespace rdmawire::replay::reactive {
namespace {

std::string answer_words(std::uint8_t syndrome, std::int64_t psn, std::uint32_t msn) {
  return fmt::format("{}, PSN {:+}, MSN {}", to_string(Syndrome(syndrome)), psn, msn);
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
