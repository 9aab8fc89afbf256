#pragma once
/// iWARP errors as a Terminate message encodes them: layer, type, code. Each constant is found at compile time by its
/// name in the Terminate tables (rdmap.hpp).
///
/// RFC 5040, 4.8 figure 9, RFC 5041, 7.2, RFC 5044, 8, RFC 6581, 8.

#include <cstdint>
#include <span>
#include <string_view>

#include "dissectors/protocol/rdmap.hpp"

namespace rdmawire::machines {

struct IwarpError {
  std::uint8_t layer = 0, type = 0, code = 0;

  friend constexpr bool operator==(const IwarpError&, const IwarpError&) = default;
};

namespace iwarp_error {

namespace detail {
consteval std::uint8_t number_of(std::span<const Name> table, std::string_view name) {
  for (const Name& entry : table)
    if (entry.name == name) return static_cast<std::uint8_t>(entry.value);
  throw "the table has no entry of that name";
}
consteval IwarpError protection(std::string_view name) {
  return {terminate_layer::rdma, number_of(terminate_rdma_type_entries, "Remote Protection Error"),
          number_of(terminate_protection_entries, name)};
}
consteval IwarpError operation(std::string_view name) {
  return {terminate_layer::rdma, number_of(terminate_rdma_type_entries, "Remote Operation Error"),
          number_of(terminate_operation_entries, name)};
}
consteval IwarpError tagged(std::string_view name) {
  return {terminate_layer::ddp, number_of(terminate_ddp_type_entries, "Tagged Buffer Error"),
          number_of(terminate_tagged_entries, name)};
}
consteval IwarpError untagged(std::string_view name) {
  return {terminate_layer::ddp, number_of(terminate_ddp_type_entries, "Untagged Buffer Error"),
          number_of(terminate_untagged_entries, name)};
}
consteval IwarpError mpa(std::string_view name) {
  return {terminate_layer::llp, number_of(terminate_llp_type_entries, "MPA Error"),
          number_of(terminate_mpa_entries, name)};
}
}  // namespace detail

// Errors of RDMAP
inline constexpr IwarpError local_catastrophic{
    terminate_layer::rdma, detail::number_of(terminate_rdma_type_entries, "Local Catastrophic Error"), 0};
inline constexpr IwarpError protection_invalid_stag = detail::protection("Invalid STag");
inline constexpr IwarpError protection_bounds = detail::protection("Base or bounds violation");
inline constexpr IwarpError protection_rights = detail::protection("Access rights violation");
inline constexpr IwarpError protection_other_stream = detail::protection("STag not associated with RDMAP Stream");
inline constexpr IwarpError protection_to_wrap = detail::protection("TO wrap");
inline constexpr IwarpError protection_unspecified = detail::protection("Unspecified Error");
inline constexpr IwarpError rdmap_version = detail::operation("Invalid RDMAP version");
inline constexpr IwarpError unexpected_opcode = detail::operation("Unexpected OpCode");
inline constexpr IwarpError stream_catastrophic = detail::operation("Catastrophic error, localized to RDMAP Stream");
inline constexpr IwarpError cannot_invalidate = detail::operation("STag cannot be Invalidated");
inline constexpr IwarpError operation_unspecified = detail::operation("Unspecified Error");
// Errors of DDP
inline constexpr IwarpError ddp_local_catastrophic{
    terminate_layer::ddp, detail::number_of(terminate_ddp_type_entries, "Local Catastrophic"),
    detail::number_of(terminate_ddp_local_entries, "Local Catastrophic")};
inline constexpr IwarpError tagged_invalid_stag = detail::tagged("Invalid STag");
inline constexpr IwarpError tagged_bounds = detail::tagged("Base or bounds violation");
inline constexpr IwarpError tagged_other_stream = detail::tagged("STag not associated with DDP Stream");
inline constexpr IwarpError tagged_to_wrap = detail::tagged("TO wrap");
inline constexpr IwarpError tagged_version = detail::tagged("Invalid DDP version");
inline constexpr IwarpError untagged_invalid_qn = detail::untagged("Invalid QN");
inline constexpr IwarpError untagged_no_buffer = detail::untagged("Invalid MSN - no buffer available");
inline constexpr IwarpError untagged_msn_range = detail::untagged("Invalid MSN - MSN range is not valid");
inline constexpr IwarpError untagged_invalid_mo = detail::untagged("Invalid MO");
inline constexpr IwarpError untagged_too_long = detail::untagged("DDP Message too long for available buffer");
inline constexpr IwarpError untagged_version = detail::untagged("Invalid DDP version");
// Errors of MPA
inline constexpr IwarpError tcp_lost = detail::mpa("TCP connection closed, terminated, or lost");
inline constexpr IwarpError crc = detail::mpa("MPA CRC error");
inline constexpr IwarpError marker = detail::mpa("MPA Marker and ULPDU Length mismatch");
inline constexpr IwarpError setup_frame = detail::mpa("Invalid MPA Request or Reply Frame");
inline constexpr IwarpError setup_local = detail::mpa("Local catastrophic");
inline constexpr IwarpError insufficient_ird = detail::mpa("Insufficient IRD resources");
inline constexpr IwarpError no_rtr_option = detail::mpa("No matching RTR option");

}  // namespace iwarp_error
}  // namespace rdmawire::machines
