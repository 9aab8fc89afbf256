#pragma once
/// For tests only: parts of the fault script. Each part creates its own queue pairs.

#include "conformance/device/roce/fault_script_for_test.hpp"
#include "conformance/device/roce/faults/icrc.hpp"
#include "dissectors/protocol/encode.hpp"

namespace rdmawire::device::testing::parts {

using ConnectOptions = Script::ConnectOptions;
inline constexpr std::int64_t us = 1000, ms = 1'000'000;

/// Return the frame with a recomputed ICRC and IPv4 checksum.
inline std::vector<std::uint8_t> recomputed(std::vector<std::uint8_t> frame) {
  constexpr std::size_t ip = 14;
  const std::size_t end = frame.size() - 4;
  store_be(frame.data() + ip + 10, 2, 0);
  store_be(frame.data() + ip + 10, 2, internet_checksum(Bytes(frame).subspan(ip, 20)));
  store_be(frame.data() + end, 4, icrc_with(Bytes(frame).subspan(ip, end - ip), true, {}));
  return frame;
}

void headers_sent(Script& s);
void headers_received(Script& s);
void responder_order(Script& s);
void responder_refusals(Script& s);
void responder_states(Script& s);
void invalidation(Script& s);
void windows(Script& s);
void requester_sends(Script& s);
void requester_answers(Script& s);
void requester_patience(Script& s);
void unreliable(Script& s);
void connections(Script& s);
void datagrams(Script& s);
void xrc(Script& s);
void congestion(Script& s);
void states(Script& s);
void invalidate_locally(Script& s);
void counters(Script& s);
void tables(Script& s);
void variants(Script& s);

}  // namespace rdmawire::device::testing::parts
