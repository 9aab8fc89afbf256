// Fuzz target: options, a map and a frame. Rewriting must stay within the buffer and keep the frame length except for a
// VLAN tag. The incremental ICRC must equal the recomputed one.

#include <cstdlib>
#include <vector>

#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "replay/rewrite/learn.hpp"
#include "replay/rewrite/resegmenter.hpp"
#include "replay/rewrite/rewriter.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rdmawire;
  using namespace rdmawire::replay;
  if (size < 8) return 0;
  const std::uint8_t* choice = data;
  const LinkType link = choice[0] & 0x80 ? LinkType::infiniband : LinkType::ethernet;
  const Bytes bytes(data + 8, size - 8);

  // The map inferred from the frame, with the selected offsets.
  tracking::Dissector dissector;
  tracking::Packet packet;
  packet.number = 1;
  packet.link = link;
  dissector.dissect(packet, bytes, static_cast<std::uint32_t>(bytes.size()));
  FlowLearner learner;
  learner.add(packet);
  FlowMap map = learner.finish().map;
  for (MappedConnection& c : map.connections) {
    if (choice[1] & 1) c.pkey.live = 0x8000 | choice[2];
    if (choice[1] & 2) c.vlan.id.live = choice[3] & 1 ? MappedVlan::untagged : choice[3];
    if (choice[1] & 4 && c.mtu.captured) c.mtu.live = 256U << choice[3] % 5;
    for (MappedEnd& end : c.ends) {
      if (choice[1] & 8) end.address.live = PortAddress::of_ipv4(choice[4] * 0x01010101U);
      if (choice[1] & 16) end.address.live = PortAddress{0xfd00000000000000, choice[4]};
      if (choice[1] & 32) end.qp.live = choice[5] * 0x0101U;
      if (choice[1] & 64 && end.psn.captured) end.psn.live = choice[6] * 0x010101U;
      for (MappedRegion& region : end.regions) region.key.live = choice[7];
    }
  }
  RewriteOptions options;
  options.crc = static_cast<CrcPolicy>(choice[0] % 3);
  options.unmapped = options.others = Unmapped::keep;
  const Rewriter rewriter(map, options);
  std::vector<std::uint8_t> room(bytes.size() + Rewriter::growth + 16, 0xa5);
  const MutableBytes mine = MutableBytes(room).first(bytes.size() + Rewriter::growth);
  const Rewritten result = rewriter.rewrite(packet, mine);
  for (std::size_t i = mine.size(); i < room.size(); ++i)
    if (room[i] != 0xa5) std::abort();
  if (result.outcome == Rewritten::Outcome::refused) {
    if (result.why.empty()) std::abort();
    return 0;
  }
  if (result.frame.data() != room.data() || result.frame.size() > mine.size() || result.frame.size() + 4 < bytes.size())
    std::abort();
  const HeaderStack after = decode(result.frame, link);
  (void)differences(packet.stack, after);
  // A valid ICRC stays valid unless the rewrite changes the packet type.
  if (packet.icrc.status == CrcCheck::Status::good && options.crc != CrcPolicy::keep && after.icrc.length == 4 &&
      after.wire == packet.stack.wire && check_icrc(after).status != CrcCheck::Status::good)
    std::abort();
  Resegmenter resegmenter(map);
  if (resegmenter.needed())
    if (const auto place = rewriter.find(packet.stack))
      for (const auto& frame : resegmenter.take(packet.stack, *place).frames) (void)decode(frame, link);
  return 0;
}
