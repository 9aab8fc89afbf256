#pragma once
/// The tester's FPDUs on an iWARP stream: complete valid FPDUs of one DDP segment, with the changes of the case. MSNs
/// are absolute: the first of each queue is 1. RFC 5040, 4, RFC 5041, 4, RFC 7306, 4.
///
///     stream >> send(1, "hello") >> write(qp.region.rkey(), qp.region.addr(), "there");
///     stream >> send(7, "gap").with<Ddp, "dv">(2, "with DV 2");

#include <cstdint>
#include <string>

#include "conformance/cases/stimulus.hpp"
#include "dissectors/protocol/ddp.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/rdmap.hpp"

namespace rdmawire::conformance::iwarp {

/// Any untagged segment of RDMAP version 1. `payload` follows the DDP header.
Stimulus untagged(RdmapOperation operation, std::uint32_t qn, std::uint32_t msn, std::uint32_t mo,
                  const std::string& payload, bool last = true);
/// Any tagged segment.
Stimulus tagged(RdmapOperation operation, std::uint32_t stag, std::uint64_t to, const std::string& payload,
                bool last = true);

Stimulus send(std::uint32_t msn, const std::string& payload = pattern_bytes(8));
/// A segment of a Send with several segments.
Stimulus send_part(std::uint32_t msn, std::uint32_t mo, const std::string& payload, bool last);
/// A Send to a queue that no stream has.
Stimulus send_nowhere(std::uint32_t msn);
Stimulus send_solicited(std::uint32_t msn, const std::string& payload = pattern_bytes(8));
Stimulus send_invalidate(std::uint32_t msn, std::uint32_t stag, const std::string& payload = pattern_bytes(8));
Stimulus send_solicited_invalidate(std::uint32_t msn, std::uint32_t stag,
                                   const std::string& payload = pattern_bytes(8));
Stimulus write(std::uint32_t stag, std::uint64_t to, const std::string& payload);
Stimulus write_part(std::uint32_t stag, std::uint64_t to, const std::string& payload, bool last);

struct Read {
  std::uint32_t size = 8;
  std::uint32_t source_stag = 0;
  std::uint64_t source_to = 0;
  std::uint32_t sink_stag = 0x5157;  ///< STag of the tester's memory
  std::uint64_t sink_to = 0x1000;
};
Stimulus read_request(std::uint32_t msn, const Read& read);
Stimulus read_response(std::uint32_t stag, std::uint64_t to, const std::string& payload, bool last = true);

/// Immediate Data of eight bytes. RFC 7306, 6.2.
Stimulus immediate(std::uint32_t msn, std::uint64_t data, bool solicited = false);
struct Atomic {
  std::uint8_t operation = 0;  ///< 0 FetchAdd, 2 CmpSwap
  std::uint32_t id = 0x77;
  std::uint32_t stag = 0;
  std::uint64_t to = 0;
  std::uint64_t data = 0, mask = 0, compare = 0, compare_mask = ~std::uint64_t{0};
};
Stimulus atomic_request(std::uint32_t msn, const Atomic& atomic);
Stimulus atomic_response(std::uint32_t msn, std::uint32_t id, std::uint64_t original);

/// A Terminate message without terminated headers.
Stimulus terminate(std::uint8_t layer, std::uint8_t type, std::uint8_t code);

}  // namespace rdmawire::conformance::iwarp
