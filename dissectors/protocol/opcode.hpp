#pragma once
/// The opcode table: transport, operation, position, direction, extension headers and payload of each BTH opcode.
/// Decoding and encoding use it. IBTA vol 1, 9.2 (opcodes), 5.2.1 to 5.2.13 (order of headers), A19.4 (FLUSH and ATOMIC
/// WRITE).

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "dissectors/protocol/field.hpp"
#include "dissectors/protocol/header.hpp"

namespace rdmawire {

/// Transport: bits 7 to 5 of the opcode.
enum class Transport : std::uint8_t { rc = 0, uc = 1, rd = 2, ud = 3, cnp = 4, xrc = 5, none = 0xff };

enum class Operation : std::uint8_t {
  send,
  rdma_write,
  rdma_read_request,
  rdma_read_response,
  acknowledge,
  atomic_acknowledge,
  compare_swap,
  fetch_add,
  resync,
  flush,
  atomic_write,
  congestion_notification,
};

/// Position of a packet in its message.
enum class Position : std::uint8_t { first, middle, last, only };

enum class Direction : std::uint8_t { request, response };

struct Opcode {
  std::uint8_t value = 0;
  bool known = false;
  Transport transport = Transport::none;
  Operation operation = Operation::send;
  Position position = Position::only;
  Direction direction = Direction::request;
  bool payload = false;     ///< the packet can contain payload
  bool immediate = false;   ///< an ImmDt follows
  bool invalidate = false;  ///< an IETH follows
  std::uint8_t header_count = 0;
  std::uint8_t header_bytes = 0;               ///< total size of the extension headers
  std::array<const HeaderInfo*, 4> headers{};  ///< extension headers in order
  std::string_view name;                       ///< "RC SEND First"

  [[nodiscard]] std::span<const HeaderInfo* const> extension_headers() const { return {headers.data(), header_count}; }
  [[nodiscard]] constexpr bool begins_message() const {
    return position == Position::first || position == Position::only;
  }
  [[nodiscard]] constexpr bool ends_message() const { return position == Position::last || position == Position::only; }
};

/// The rows of all opcodes, by value. `known` is false if the specification does not define the opcode.
extern const std::array<Opcode, 256> opcodes;
inline const Opcode& opcode(std::uint8_t value) { return opcodes[value]; }

/// Names of the known opcodes, in ascending order of value.
extern const Names opcode_names;

std::string_view to_string(Transport transport);
std::string_view to_string(Operation operation);
std::string_view to_string(Position position);

/// Returns the opcode with these properties, or nullptr if it is not defined.
const Opcode* find_opcode(Transport transport, Operation operation, Position position = Position::only,
                          bool immediate = false, bool invalidate = false);

}  // namespace rdmawire
