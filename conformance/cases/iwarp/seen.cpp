#include "conformance/cases/iwarp/seen.hpp"

#include <fmt/format.h>

namespace rdmawire::conformance::iwarp {
namespace {

std::string name_of(std::uint64_t opcode) {
  const RdmapOpcode& row = rdmap_opcode(static_cast<std::uint8_t>(opcode));
  return row.known ? std::string(row.name) : fmt::format("opcode {}", opcode);
}

std::string terminate_text(const Seen& seen) {
  const HeaderStack stack = seen.stack();
  const auto header = stack.get<Terminate>();
  if (!header) return "truncated Terminate";
  const std::uint8_t* at = header->data();
  return fmt::format("Terminate, layer {}, type {}, code {:#04x} (bytes {:02x} {:02x} {:02x} {:02x})",
                     header->get<"layer">(), header->get<"etype">(), header->get<"error_code">(), at[0], at[1], at[2],
                     at[3]);
}

std::string setup_text(const Seen& seen) {
  const View<MpaFrame> frame(seen.bytes.data());
  const std::string_view what = MpaFrame::is_request(seen.bytes.data()) ? "MPA Request Frame"
                                : MpaFrame::is_reply(seen.bytes.data()) ? "MPA Reply Frame"
                                                                        : "a frame with neither key of MPA";
  return fmt::format("{}, revision {}, M {}, C {}, R {}, S {}, {} bytes of private data", what, frame.get<"revision">(),
                     frame.get<"markers">(), frame.get<"crc">(), frame.get<"reject">(), frame.get<"enhanced">(),
                     frame.get<"private_data_length">());
}

}  // namespace

HeaderStack Seen::stack() const {
  HeaderStack decoded;
  decode_fpdu(decoded, bytes);
  return decoded;
}

bool Seen::is(RdmapOperation operation) const {
  return kind == Kind::fpdu && get<Rdmap, "opcode">() == static_cast<std::uint64_t>(operation);
}

std::string Seen::payload() const {
  const HeaderStack decoded = stack();
  const Bytes found = decoded.bytes_of(decoded.payload);
  return {found.begin(), found.end()};
}

std::uint32_t Seen::ulpdu_bytes() const { return static_cast<std::uint32_t>(load_be<2>(bytes.data())); }

std::optional<Seen> Seen::with_bits_in_order() const {
  const HeaderStack decoded = stack();
  const auto header = decoded.get<Terminate>();
  if (!header || !is(RdmapOperation::terminate)) return std::nullopt;
  // M, D and R are in the three lowest bits, which are reserved, or layer and type are swapped.
  Seen right = *this;
  std::uint8_t* control = right.bytes.data() + (header->data() - bytes.data());
  control[0] = static_cast<std::uint8_t>(control[0] << 4 | control[0] >> 4);
  control[2] = static_cast<std::uint8_t>((control[2] & 1) << 7 | (control[2] & 2) << 5 | (control[2] & 4) << 3);
  return right;
}

std::string Seen::text() const {
  switch (kind) {
    case Kind::setup: return setup_text(*this);
    case Kind::torn: return fmt::format("{} bytes that are not a complete frame", bytes.size());
    case Kind::fin: return "FIN";
    case Kind::reset: return "a reset of TCP";
    case Kind::fpdu: break;
  }
  const HeaderStack decoded = stack();
  const auto rdmap = decoded.get<Rdmap>();
  std::string text = !rdmap ? fmt::format("an FPDU of {} bytes that contains no DDP segment", bytes.size())
                     : is(RdmapOperation::terminate) ? terminate_text(*this)
                                                     : name_of(rdmap->get<"opcode">());
  if (const auto untagged = decoded.get<DdpUntagged>())
    text += fmt::format(", QN {}, MSN {}, MO {}", untagged->get<"qn">(), untagged->get<"msn">(), untagged->get<"mo">());
  if (const auto tagged = decoded.get<DdpTagged>())
    text += fmt::format(", STag {:#x}, TO {:#x}", tagged->get<"stag">(), tagged->get<"to">());
  if (const auto read = decoded.get<RdmapReadRequest>(); read && is(RdmapOperation::read_request))
    text += fmt::format(", of {} bytes at STag {:#x}, TO {:#x}", read->get<"size">(), read->get<"src_stag">(),
                        read->get<"src_to">());
  if (const auto bytes_of_payload = decoded.bytes_of(decoded.payload).size(); bytes_of_payload != 0)
    text += fmt::format(", {} bytes", bytes_of_payload);
  if (!crc_good) text += ", with a bad CRC";
  return text;
}

Expectation Expectation::carrying(const std::string& payload) const {
  return where(fmt::format("with the {} bytes expected", payload.size()),
               [payload](const Seen& seen) { return seen.payload() == payload; });
}

Expectation an(RdmapOperation operation) {
  return {name_of(static_cast<std::uint64_t>(operation)),
          [operation](const Seen& seen) { return seen.is(operation) && seen.crc_good ? Match::yes : Match::no; }};
}

Expectation an(RdmapOperation operation, std::uint32_t msn) {
  return an(operation).where(fmt::format("MSN {}", msn),
                             [msn](const Seen& seen) { return seen.get<DdpUntagged, "msn">() == msn; });
}

namespace {

Expectation to(const Expectation& what, std::uint32_t stag, std::uint64_t offset) {
  return what.where(fmt::format("STag {:#x}, TO {:#x}", stag, offset), [stag, offset](const Seen& seen) {
    return seen.get<DdpTagged, "stag">() == stag && seen.get<DdpTagged, "to">() == offset;
  });
}

}  // namespace

Expectation a_write(std::uint32_t stag, std::uint64_t offset) {
  return to(an(RdmapOperation::rdma_write), stag, offset);
}
Expectation a_read_response(std::uint32_t stag, std::uint64_t offset) {
  return to(an(RdmapOperation::read_response), stag, offset);
}
Expectation a_read_request(std::uint32_t msn, std::uint32_t size) {
  return an(RdmapOperation::read_request, msn).where(fmt::format("of {} bytes", size), [size](const Seen& seen) {
    return seen.get<RdmapReadRequest, "size">() == size;
  });
}
Expectation an_atomic_response(std::uint32_t msn, std::uint32_t id, std::uint64_t original) {
  return an(RdmapOperation::atomic_response, msn)
      .where(fmt::format("of request {:#x}, original value {:#x}", id, original), [id, original](const Seen& seen) {
        return seen.get<RdmapAtomicResponse, "request_id">() == id &&
               seen.get<RdmapAtomicResponse, "original">() == original;
      });
}

Expectation any_terminate() { return an(RdmapOperation::terminate); }

Expectation a_terminate(std::uint8_t layer, std::uint8_t type, std::uint8_t code) {
  return {fmt::format("Terminate, layer {}, type {}, code {:#04x}", layer, type, code),
          [layer, type, code](const Seen& seen) {
            if (!seen.is(RdmapOperation::terminate) || !seen.crc_good) return Match::no;
            const bool same = seen.get<Terminate, "layer">() == layer && seen.get<Terminate, "etype">() == type &&
                              seen.get<Terminate, "error_code">() == code;
            return same ? Match::yes : Match::wrong_code;
          }};
}

namespace {

Expectation of_kind(Seen::Kind kind, const std::string& text) {
  return {text, [kind](const Seen& seen) { return seen.kind == kind ? Match::yes : Match::no; }};
}
Expectation a_setup(const std::string& text, bool (*is_that)(const std::uint8_t*)) {
  return {text, [is_that](const Seen& seen) {
            return seen.kind == Seen::Kind::setup && is_that(seen.bytes.data()) ? Match::yes : Match::no;
          }};
}

}  // namespace

Expectation a_reply() { return a_setup("MPA Reply Frame", MpaFrame::is_reply); }
Expectation a_request() { return a_setup("MPA Request Frame", MpaFrame::is_request); }
Expectation a_fin() { return of_kind(Seen::Kind::fin, "a FIN"); }
Expectation a_reset() { return of_kind(Seen::Kind::reset, "a reset of TCP"); }
Expectation a_refusal() {
  return {"a Terminate, or the end of TCP", [](const Seen& seen) {
            const bool terminated = any_terminate().judge(seen) == Match::yes;
            return terminated ? Match::yes : stream_closed().judge(seen);
          }};
}
Expectation stream_closed() {
  return {"the end of TCP, by FIN or reset", [](const Seen& seen) {
            return seen.kind == Seen::Kind::fin || seen.kind == Seen::Kind::reset ? Match::yes : Match::no;
          }};
}

}  // namespace rdmawire::conformance::iwarp
