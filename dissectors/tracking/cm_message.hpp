#pragma once
/// The fields of a CM message in one structure for all message types. IBTA vol 1, 12.6 to 12.11.

#include <cstdint>

#include "dissectors/protocol/cm.hpp"
#include "dissectors/protocol/stack.hpp"

namespace rdmawire::tracking {

struct CmMessage {
  const HeaderInfo* kind =
      nullptr;  ///< header of the message, such as &info<CmReq> (nullptr: the packet is not a CM message)
  const std::uint8_t* header = nullptr;  ///< first byte of the message (not null if `kind` is set)
  std::uint64_t transaction_id = 0;
  std::uint32_t local_id = 0, remote_id = 0;    ///< communication IDs of the sender and the receiver. The request ID of
                                                ///< SIDR is the local ID in a SIDR_REQ, and the remote ID in a SIDR_REP
  std::uint64_t service_id = 0;                 ///< REQ, SIDR_REQ, SIDR_REP
  std::uint16_t port = 0;                       ///< port in RDMA-CM's service ID, otherwise 0
  std::uint8_t port_protocol = 0;               ///< the IP protocol of `port`
  std::uint64_t ca_guid = 0;                    ///< REP: GUID of the sender
  std::uint32_t qp = 0;                         ///< REQ, REP, SIDR_REP: QP of the sender (DREQ, LAP: of the receiver)
  std::uint32_t starting_psn = 0;               ///< REQ and REP: the first PSN that the receiver of the message sends
  std::uint16_t local_lid = 0, remote_lid = 0;  ///< REQ: LIDs of the primary path
  bool ip_addressed = false;                    ///< REQ: RDMA-CM's header precedes the private data
  Bytes private_data;                           ///< REQ, REP and REJ: private data after RDMA-CM's header

  /// Returns a view of all fields. Requires that `kind` is &info<H>.
  template <class H>
  [[nodiscard]] View<H> as() const {
    return View<H>(header);
  }
};

/// Returns the CM message in a packet to QP 1. The result refers to the bytes of the stack.
CmMessage read_cm_message(const HeaderStack& stack);

}  // namespace rdmawire::tracking
