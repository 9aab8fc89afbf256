#pragma once
/// Decodes upper layer protocols over RDMA. Packets do not identify their upper layer protocol, so the caller specifies
/// the protocol according to the connection's state.

#include <cstdint>
#include <string_view>

#include "dissectors/protocol/stack.hpp"

namespace rdmawire {

/// An upper layer protocol over RDMA. It is detected from evidence about the connection (service ID, private data,
/// port, multicast group), but not from payload.
enum class Upper : std::uint8_t { unknown, ipoib, nvme, rpc_rdma, iser, srp, smb_direct };
std::string_view to_string(Upper upper);

/// Properties of the connection and the message that decode_upper() requires.
struct UpperContext {
  Upper protocol = Upper::unknown;
  bool to_listener = false;    ///< sent by the side that requested the connection: the host, client or initiator
  bool first_message = false;  ///< the first message of its direction: SMB Direct negotiation
  bool admin_queue = false;    ///< NVMe over Fabrics: queue 0
  bool connect_data =
      false;  ///< NVMe over Fabrics: the payload is the data of a Connect, which the controller reads, and no capsule
};

/// The part of the message that the packet contains.
enum class Extent : std::uint8_t {
  whole,     ///< the whole message
  beginning  ///< the first packet of several
};

/// Decodes the start of a SEND message (or RDMAP's Send), or of the data of a Connect, at `stack.payload`. Appends
/// the protocol's headers to the existing layers and leaves the remaining bytes in `payload`. Does not change lower
/// layers (network, transport, CRCs, pad, cut). Stops with a finding at bytes that are invalid for the protocol.
/// Missing bytes are a finding only in a complete message.
void decode_upper(HeaderStack& stack, const UpperContext& context, Extent extent);

/// A message that contains private data during connection establishment: REQ, REP and REJ of the CM, request and reply
/// of MPA.
enum class PrivateData : std::uint8_t { request, reply, reject };

/// Decodes the upper layer protocol's part of the private data at `stack.payload`, after RDMA-CM's header if
/// present. `ip_addressed`: the service ID belongs to RDMA-CM. Its header leaves less space, so SRP uses a shorter
/// login request. Unknown formats remain payload.
void decode_private_data(HeaderStack& stack, const UpperContext& context, PrivateData message, bool ip_addressed);

}  // namespace rdmawire
