#include "dissectors/protocol/mrc.hpp"

#include "dissectors/protocol/encode.hpp"

namespace rdmawire {
namespace {

struct OpcodeOfMrc {
  std::uint8_t code;
  MrcOperation operation;
  Position position;
  Direction direction;
  std::array<const HeaderInfo*, 3> headers;
  bool payload;
  std::string_view name;
};

// The lambda limits the scope of the enumerators. A unity build also contains those of `Operation`.
constexpr auto mrc_rows = [] {
  using enum MrcOperation;
  using enum Position;
  using enum Direction;
  return std::to_array<OpcodeOfMrc>({
      {0xc6, rdma_write, first, request, {&info<Meth>, &info<Reth>}, true, "MRC RDMA WRITE First"},
      {0xc7, rdma_write, middle, request, {&info<Meth>, &info<Reth>}, true, "MRC RDMA WRITE Middle"},
      {0xc8, rdma_write, last, request, {&info<Meth>, &info<Reth>}, true, "MRC RDMA WRITE Last"},
      {0xc9,
       rdma_write,
       last,
       request,
       {&info<Meth>, &info<Reth>, &info<ImmDt>},
       true,
       "MRC RDMA WRITE Last with Immediate"},
      {0xca, rdma_write, only, request, {&info<Meth>, &info<Reth>}, true, "MRC RDMA WRITE Only"},
      {0xcb,
       rdma_write,
       only,
       request,
       {&info<Meth>, &info<Reth>, &info<ImmDt>},
       true,
       "MRC RDMA WRITE Only with Immediate"},
      {0xd1, acknowledge, only, response, {&info<Aeth>}, false, "MRC Acknowledge"},
      {0xd8, endpoint_request, only, request, {&info<Erth>}, false, "MRC Endpoint Request"},
      {0xd9, endpoint_response, only, response, {&info<Eeth>}, false, "MRC Endpoint Response"},
      {0xdc, sack, only, response, {&info<Seth>, &info<CcState>}, false, "MRC SACK"},
      {0xdd, nack, only, response, {&info<Neth>}, false, "MRC NACK"},
      {0xde, probe, only, request, {&info<Peth>}, false, "MRC Probe"},
  });
}();

constexpr std::array<MrcOpcode, 256> mrc_table = [] {
  std::array<MrcOpcode, 256> table{};
  for (const OpcodeOfMrc& row : mrc_rows) {
    MrcOpcode& op = table[row.code];
    op.value = row.code;
    op.known = true;
    op.operation = row.operation;
    op.position = row.position;
    op.direction = row.direction;
    op.payload = row.payload;
    op.name = row.name;
    for (const HeaderInfo* header : row.headers) {
      if (!header) continue;
      op.headers[op.header_count++] = header;
      op.header_bytes = static_cast<std::uint8_t>(op.header_bytes + header->size);
      op.immediate |= header == &info<ImmDt>;
    }
  }
  return table;
}();

constexpr auto mrc_name_entries = [] {
  std::array<Name, std::size(mrc_rows)> entries{};
  for (std::size_t i = 0; i < entries.size(); ++i) entries[i] = {mrc_rows[i].code, mrc_rows[i].name, {}};
  return entries;
}();

constexpr std::uint8_t timestamp_format = 1;
constexpr std::uint32_t icrc_size = 4;

}  // namespace

constinit const std::array<MrcOpcode, 256> mrc_opcodes = mrc_table;
constinit const Names mrc_opcode_names{"MRC opcode", mrc_name_entries, mrc::agreed};

std::string_view to_string(MrcOperation operation) {
  switch (operation) {
    case MrcOperation::rdma_write: return "RDMA WRITE";
    case MrcOperation::acknowledge: return "Acknowledge";
    case MrcOperation::endpoint_request: return "Endpoint Request";
    case MrcOperation::endpoint_response: return "Endpoint Response";
    case MrcOperation::sack: return "SACK";
    case MrcOperation::nack: return "NACK";
    case MrcOperation::probe: return "Probe";
  }
  return "?";
}

MrcExtensions extensions_of(View<MrcBth> bth) {
  const MrcOpcode& op = mrc_opcode(bth.get<"opcode">());
  MrcExtensions extensions;
  for (std::size_t i = 0; i < op.header_count; ++i) {
    extensions.headers[extensions.count++] = op.headers[i];
    if (op.headers[i] == &info<Meth> && bth.get<"ts">()) extensions.headers[extensions.count++] = &info<Tseth>;
  }
  return extensions;
}

bool MrcBth::recognizes(const Cursor& c) {
  const View<MrcBth> bth(c.here());
  const MrcOpcode& op = mrc_opcode(bth.get<"opcode">());
  if (!op.known || bth.get<"tver">() != 0 || c.stack.fragment) return false;
  std::uint32_t headers = MrcBth::size, reth = 0;
  const MrcExtensions extensions = extensions_of(bth);
  for (const HeaderInfo* header : extensions.list()) {
    if (header == &info<Reth>) reth = headers;
    headers += header->size;
  }
  const std::uint32_t declared = c.declared_end - c.at;
  if (declared < headers + icrc_size) return false;
  const std::uint32_t rest = declared - headers - icrc_size;
  if (op.payload) {
    // The length in the RETH is that of the packet or of the whole message.
    if (c.left() < reth + Reth::size) return false;
    const std::uint32_t pad = bth.get<"pad">();
    return rest >= pad && View<Reth>(c.here() + reth).get<"length">() >= rest - pad;
  }
  // Control packets have a fixed length. All headers except the AETH begin with nine zero bits.
  if (rest != 0 || bth.get<"pad">() != 0 || c.left() < headers) return false;
  return op.operation == MrcOperation::acknowledge || load_bits(c.here() + MrcBth::size, 0, 9) == 0;
}

void MrcBth::fill(FrameLayout& frame, std::size_t index) {
  HeaderValue& bth = frame.at(index);
  bth.fill("pad", frame.pad_bytes);
  bth.fill("pkey", 0xffff);
  bool stamped = false;
  for (std::size_t i = index + 1; i < frame.layers.size(); ++i) stamped |= &frame.layers[i].header() == &info<Tseth>;
  bth.fill("ts", stamped);
}

void Tseth::fill(FrameLayout& frame, std::size_t index) { frame.at(index).fill("format", timestamp_format); }
void Peth::fill(FrameLayout& frame, std::size_t index) { frame.at(index).fill("format", timestamp_format); }
void Erth::fill(FrameLayout& frame, std::size_t index) { frame.at(index).fill("format", timestamp_format); }

void Neth::fill(FrameLayout& frame, std::size_t index) {
  constexpr std::uint8_t nack_state = 2;
  frame.at(index).fill("cc_type", nack_state);
}

}  // namespace rdmawire
