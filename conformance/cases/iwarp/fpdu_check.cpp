#include "conformance/cases/iwarp/fpdu_check.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rdmawire::conformance::iwarp {

std::vector<WireViolation> check_fpdu(const Seen& fpdu) {
  std::vector<WireViolation> found;
  const auto require = [&](bool holds, RuleId rule, std::string expected, std::string actual) {
    if (!holds) found.push_back({rule, std::move(expected), std::move(actual)});
  };
  // RFC 5044, 4.4 and 4.1
  require(fpdu.crc_good, "fpdu.sender.crc.right", "the CRC32c of the FPDU", "another CRC in " + fpdu.text());
  const HeaderStack stack = fpdu.stack();
  const Bytes pad = stack.bytes_of(stack.pad);
  require(std::ranges::all_of(pad, [](std::uint8_t byte) { return byte == 0; }), "fpdu.sender.format.length-pad-crc",
          "a pad of zeros", "another pad in " + fpdu.text());
  const auto ddp = stack.get<Ddp>();
  const auto rdmap = stack.get<Rdmap>();
  if (!ddp || !rdmap) {
    require(false, "fpdu.sender.format.length-pad-crc", "a ULPDU with a DDP segment", fpdu.text());
    return found;
  }
  // RFC 5041, 4.1, RFC 5040, 4.1
  const std::uint32_t version = ddp->get<"dv">(), rdmap_version = rdmap->get<"rv">();
  const bool consortium = version == 0 && rdmap_version == 0;
  const RdmapOpcode& opcode = rdmap_opcode(static_cast<std::uint8_t>(rdmap->get<"opcode">()));
  require((version == 1 || consortium) && ddp->get<"reserved">() == 0 && rdmap->get<"reserved">() == 0 &&
              (!opcode.known || (ddp->get<"tagged">() != 0) == opcode.tagged),
          "ddp.data-source.control.fields", "DDP version 1, reserved bits 0, and the tagged flag of the opcode",
          fmt::format("version {}, reserved bits {:#x} of DDP and {:#x} of RDMAP, tagged {} with opcode {}", version,
                      ddp->get<"reserved">(), rdmap->get<"reserved">(), ddp->get<"tagged">(), opcode.value));
  require(rdmap_version == 1 || consortium, "rdmap.sender.version.one", "RDMAP version 1",
          fmt::format("version {}", rdmap_version));
  return found;
}

std::vector<WireViolation> check_setup(const Seen& setup, bool device_initiates) {
  std::vector<WireViolation> found;
  const std::uint8_t* at = setup.bytes.data();
  const View<MpaFrame> frame(at);
  const std::uint32_t bytes = frame.get<"private_data_length">();
  const bool request = MpaFrame::is_request(at), reply = MpaFrame::is_reply(at);
  // RFC 5044, 7.1.1
  if (!device_initiates && !reply)
    found.push_back({"mpa.responder.reply.key", "the key \"MPA ID Rep Frame\"",
                     request ? "the key of a request" : "another key", true});
  else if (device_initiates &&
           (!request || frame.get<"reserved">() != 0 || frame.get<"reject">() != 0 || bytes > mpa::max_private_data))
    found.push_back({"mpa.initiator.request.format",
                     "the request key, R and reserved bits 0, and at most 512 bytes of private data", setup.text(),
                     !request});
  return found;
}

}  // namespace rdmawire::conformance::iwarp
