#include "dissectors/protocol/opcode.hpp"

#include "dissectors/protocol/infiniband.hpp"

namespace rdmawire {
namespace {

// One row for each value of bits 4 to 0. The meaning is the same in all transports.
struct OpcodeRow {
  std::uint8_t code;
  Operation operation;
  Position position;
  Direction direction;
  std::array<const HeaderInfo*, 2> headers;
  bool payload;
  std::string_view name;
};

using enum Operation;
using enum Position;
using enum Direction;

constexpr OpcodeRow opcode_rows[] = {
    {0x00, send, first, request, {}, true, "SEND First"},
    {0x01, send, middle, request, {}, true, "SEND Middle"},
    {0x02, send, last, request, {}, true, "SEND Last"},
    {0x03, send, last, request, {&info<ImmDt>}, true, "SEND Last with Immediate"},
    {0x04, send, only, request, {}, true, "SEND Only"},
    {0x05, send, only, request, {&info<ImmDt>}, true, "SEND Only with Immediate"},
    {0x06, rdma_write, first, request, {&info<Reth>}, true, "RDMA WRITE First"},
    {0x07, rdma_write, middle, request, {}, true, "RDMA WRITE Middle"},
    {0x08, rdma_write, last, request, {}, true, "RDMA WRITE Last"},
    {0x09, rdma_write, last, request, {&info<ImmDt>}, true, "RDMA WRITE Last with Immediate"},
    {0x0a, rdma_write, only, request, {&info<Reth>}, true, "RDMA WRITE Only"},
    {0x0b, rdma_write, only, request, {&info<Reth>, &info<ImmDt>}, true, "RDMA WRITE Only with Immediate"},
    {0x0c, rdma_read_request, only, request, {&info<Reth>}, false, "RDMA READ Request"},
    {0x0d, rdma_read_response, first, response, {&info<Aeth>}, true, "RDMA READ Response First"},
    {0x0e, rdma_read_response, middle, response, {}, true, "RDMA READ Response Middle"},
    {0x0f, rdma_read_response, last, response, {&info<Aeth>}, true, "RDMA READ Response Last"},
    {0x10, rdma_read_response, only, response, {&info<Aeth>}, true, "RDMA READ Response Only"},
    {0x11, acknowledge, only, response, {&info<Aeth>}, false, "Acknowledge"},
    {0x12, atomic_acknowledge, only, response, {&info<Aeth>, &info<AtomicAckEth>}, false, "ATOMIC Acknowledge"},
    {0x13, compare_swap, only, request, {&info<AtomicEth>}, false, "CmpSwap"},
    {0x14, fetch_add, only, request, {&info<AtomicEth>}, false, "FetchAdd"},
    {0x15, resync, only, request, {}, false, "RESYNC"},
    {0x16, send, last, request, {&info<Ieth>}, true, "SEND Last with Invalidate"},
    {0x17, send, only, request, {&info<Ieth>}, true, "SEND Only with Invalidate"},
    {0x1c, flush, only, request, {&info<Feth>, &info<Reth>}, false, "FLUSH"},
    {0x1d, atomic_write, only, request, {&info<Reth>}, true, "ATOMIC WRITE"},
};

// True if the transport supports the operation.
constexpr bool has(Transport transport, const OpcodeRow& row) {
  switch (transport) {
    case Transport::rc: return row.operation != resync;
    case Transport::uc: return row.code <= 0x0b;
    case Transport::rd: return row.code <= 0x15 || row.operation == flush || row.operation == atomic_write;
    case Transport::ud: return row.code == 0x04 || row.code == 0x05;
    case Transport::xrc: return row.operation != resync;
    default: return false;
  }
}

// Returns the headers of a transport that precede the headers of the operation.
constexpr std::array<const HeaderInfo*, 2> transport_headers(Transport transport, Direction direction) {
  switch (transport) {
    case Transport::rd: return {&info<Rdeth>, direction == request ? &info<Deth> : nullptr};
    case Transport::ud: return {&info<Deth>};
    case Transport::xrc: return {direction == request ? &info<Xrceth> : nullptr};
    default: return {};
  }
}

constexpr std::string_view prefixes[] = {"RC ", "UC ", "RD ", "UD ", "", "XRC "};
struct NameText {
  char text[48]{};
  std::uint8_t size = 0;
  constexpr void append(std::string_view s) {
    for (char c : s) text[size++] = c;
  }
};
constexpr std::uint8_t cnp_opcode = 0x81;

// Names of all opcodes, such as "RC SEND First", built at compile time. Opcode::name refers to them.
constexpr auto name_texts = [] {
  std::array<NameText, 256> texts{};
  for (unsigned t = 0; t < 6; ++t)
    for (const OpcodeRow& row : opcode_rows)
      if (has(static_cast<Transport>(t), row)) {
        texts[t << 5 | row.code].append(prefixes[t]);
        texts[t << 5 | row.code].append(row.name);
      }
  texts[cnp_opcode].append("CNP");
  return texts;
}();

constexpr std::array<Opcode, 256> make_opcodes() {
  std::array<Opcode, 256> table{};
  for (unsigned value = 0; value < 256; ++value) {
    table[value].value = static_cast<std::uint8_t>(value);
    table[value].name = {name_texts[value].text, name_texts[value].size};
    const unsigned transport = value >> 5;
    table[value].transport = transport <= 5 ? static_cast<Transport>(transport) : Transport::none;
  }
  auto add = [](Opcode& o, const HeaderInfo* header) {
    if (!header) return;
    o.headers[o.header_count++] = header;
    o.header_bytes = static_cast<std::uint8_t>(o.header_bytes + header->size);
    o.immediate |= header == &info<ImmDt>;
    o.invalidate |= header == &info<Ieth>;
  };
  for (unsigned t = 0; t < 6; ++t) {
    const auto transport = static_cast<Transport>(t);
    for (const OpcodeRow& row : opcode_rows) {
      if (!has(transport, row)) continue;
      Opcode& o = table[t << 5 | row.code];
      o.known = true;
      o.operation = row.operation;
      o.position = row.position;
      o.direction = row.direction;
      o.payload = row.payload;
      for (const HeaderInfo* header : transport_headers(transport, row.direction)) add(o, header);
      for (const HeaderInfo* header : row.headers) add(o, header);
    }
  }
  Opcode& cnp = table[cnp_opcode];
  cnp.known = true;
  cnp.operation = congestion_notification;
  add(cnp, &info<Cnp>);
  return table;
}

constexpr std::array<Opcode, 256> opcode_table = make_opcodes();
constexpr std::size_t known_bth_opcodes = [] {
  std::size_t n = 0;
  for (const Opcode& o : opcode_table) n += o.known;
  return n;
}();
constexpr auto bth_opcode_name_entries = [] {
  std::array<Name, known_bth_opcodes> entries{};
  std::size_t n = 0;
  for (const Opcode& o : opcode_table)
    if (o.known) entries[n++] = {o.value, o.name, {}};
  return entries;
}();

}  // namespace

constinit const std::array<Opcode, 256> opcodes = opcode_table;
constinit const Names opcode_names{"BTH opcode", bth_opcode_name_entries, "IBTA vol 1, 9.2"};

std::string_view to_string(Transport transport) {
  switch (transport) {
    case Transport::rc: return "RC";
    case Transport::uc: return "UC";
    case Transport::rd: return "RD";
    case Transport::ud: return "UD";
    case Transport::cnp: return "CNP";
    case Transport::xrc: return "XRC";
    case Transport::none: break;
  }
  return "none";
}

std::string_view to_string(Operation operation) {
  switch (operation) {
    case send: return "SEND";
    case rdma_write: return "RDMA WRITE";
    case rdma_read_request: return "RDMA READ Request";
    case rdma_read_response: return "RDMA READ Response";
    case acknowledge: return "Acknowledge";
    case atomic_acknowledge: return "ATOMIC Acknowledge";
    case compare_swap: return "CmpSwap";
    case fetch_add: return "FetchAdd";
    case resync: return "RESYNC";
    case flush: return "FLUSH";
    case atomic_write: return "ATOMIC WRITE";
    case congestion_notification: return "CNP";
  }
  return "?";
}

std::string_view to_string(Position position) {
  switch (position) {
    case first: return "First";
    case middle: return "Middle";
    case last: return "Last";
    case only: return "Only";
  }
  return "?";
}

const Opcode* find_opcode(Transport transport, Operation operation, Position position, bool immediate,
                          bool invalidate) {
  for (const Opcode& o : opcodes)
    if (o.known && o.transport == transport && o.operation == operation && o.position == position &&
        o.immediate == immediate && o.invalidate == invalidate)
      return &o;
  return nullptr;
}

}  // namespace rdmawire
