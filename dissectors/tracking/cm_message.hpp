#pragma once
/// A CM message as those read it that follow connections: one form for all kinds. IBTA vol 1, 12.6 to 12.11.

#include <cstdint>

#include "dissectors/protocol/cm.hpp"
#include "dissectors/protocol/stack.hpp"

namespace rdmawire::tracking {

struct CmMessage {
  const HeaderInfo* kind = nullptr;      ///< &info<CmReq> and so on; nullptr: the packet is no CM message
  const std::uint8_t* header = nullptr;  ///< where it stands; not null when `kind` is not
  std::uint64_t transaction_id = 0;
  std::uint32_t local_id = 0, remote_id = 0;    ///< the sender's and the receiver's names for the communication;
                                                ///< SIDR_REQ and SIDR_REP: the request id, as local and as remote
  std::uint64_t service_id = 0;                 ///< REQ, SIDR_REQ, SIDR_REP
  std::uint16_t port = 0;                       ///< likewise: port of RDMA-CM's service id, else 0
  std::uint8_t port_protocol = 0;               ///< and the IP protocol whose port it is
  std::uint64_t ca_guid = 0;                    ///< REP: the sender's
  std::uint32_t qp = 0;                         ///< REQ, REP, SIDR_REP: the sender's; DREQ, LAP: the receiver's
  std::uint32_t starting_psn = 0;               ///< REQ and REP: what the receiver is to begin with
  std::uint16_t local_lid = 0, remote_lid = 0;  ///< REQ: the primary path
  bool ip_addressed = false;                    ///< REQ: RDMA-CM's header stands before the private data
  Bytes private_data;                           ///< REQ, REP and REJ: behind RDMA-CM's header

  /// All fields, when `kind` is &info<H>.
  template <class H>
  [[nodiscard]] View<H> as() const {
    return View<H>(header);
  }
};

/// The CM message of a packet to queue pair 1. It refers to the stack's bytes.
CmMessage read_cm_message(const HeaderStack& stack);

}  // namespace rdmawire::tracking
