#pragma once
/// Upper layer protocols over RDMA. Nothing in a packet says which of them its payload is: the connection does. So who
/// knows the connection says the protocol, and this reads it.

#include <cstdint>
#include <string_view>

#include "dissectors/protocol/stack.hpp"

namespace rdmawire {

/// An upper layer protocol over RDMA. Named from evidence in the connection (service id, private data, port, multicast
/// group), never from what payload bytes happen to look like.
enum class Upper : std::uint8_t { unknown, ipoib, nvme, rpc_rdma, iser, srp, smb_direct };
std::string_view to_string(Upper upper);

/// What the connection says about a message.
struct UpperContext {
  Upper protocol = Upper::unknown;
  bool to_listener = false;    ///< sent by the side that asked for the connection: the host, client or initiator
  bool first_message = false;  ///< the first message of its direction: SMB Direct negotiates with it
  bool admin_queue = false;    ///< NVMe over Fabrics: queue 0
  bool connect_data = false;   ///< NVMe over Fabrics: not a capsule, but the data of a Connect, read by the controller
};

/// How much of a message a packet carries.
enum class Extent : std::uint8_t {
  whole,     ///< all of it
  beginning  ///< its first packet; more follow
};

/// Reads the beginning of a message that was sent (SEND, or RDMAP's Send), or of the data of a Connect: `stack.payload`
/// is where it starts. Pushes the protocol's headers behind the layers that are there, and leaves in `payload` what
/// they do not claim. What lies below (network, transport, CRCs, pad, cut) stays as it was. A message that cannot be
/// what the protocol sends leaves the payload as it is, with a finding when the message is there whole.
void decode_upper(HeaderStack& stack, const UpperContext& context, Extent extent);

/// A message that sets a connection up and carries private data: the CM's REQ, REP and REJ, MPA's request and reply.
enum class PrivateData : std::uint8_t { request, reply, reject };

/// Reads the upper layer protocol's own part of the private data, which is `stack.payload`: behind RDMA-CM's header
/// where there is one. `ip_addressed` says whether the service id is one of RDMA-CM's, which leaves less room, so that
/// SRP has a shorter login for it. Formats that are not known stay payload.
void decode_private_data(HeaderStack& stack, const UpperContext& context, PrivateData message, bool ip_addressed);

}  // namespace rdmawire
