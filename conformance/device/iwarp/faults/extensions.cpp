/// Faults of RFC 7306: Immediate Data and atomics.

#include "conformance/device/iwarp/faults/overrides.hpp"
#include "conformance/device/iwarp/stream.hpp"

namespace rdmawire::endpoint {

namespace {

using machines::DdpSegment;
using machines::IwarpError;
namespace errors = machines::iwarp_error;

// Offsets in an Atomic Request.
constexpr std::size_t add_mask_at = 28, compare_mask_at = 44;

bool is_compare_swap(Bytes header) {
  return View<RdmapAtomicRequest>(header.data()).get<"operation">() == machines::atomic_compare_swap;
}
std::vector<std::uint8_t> with_mask(Bytes header, std::size_t at, std::uint64_t mask) {
  std::vector<std::uint8_t> changed(header.begin(), header.end());
  store_be(changed.data() + at, 8, mask);
  return changed;
}

constexpr FaultOverride extension_rows[] = {
    {Fault::silent_extensions,
     [](Decisions& d) {
       d.segments.reject.override_with([](const auto& next, Stream& stream, const DdpSegment& segment, IwarpError error,
                                          Bytes ulpdu) {
         const auto operation = machines::operation_of(segment.control);
         const bool dropped =
             rdmap_opcode(operation).known && machines::is_extension(operation) && !stream.rnic.options().extensions;
         if (!dropped) next(stream, segment, error, ulpdu);
       });
     }},
    // Received Immediate Data
    {Fault::takes_any_immediate,
     [](Decisions& d) {
       d.segments.buffer.override_with([](const auto& next, const Stream& stream, const DdpSegment& segment) {
         machines::UntaggedBuffer buffer = next(stream, segment);
         if (machines::is_immediate(machines::operation_of(segment.control)) && buffer.available) buffer.bytes = 256;
         return buffer;
       });
       d.responder.judge_message.override_with(
           [](const auto& next, RdmapOperation operation, std::uint64_t bytes) -> std::optional<IwarpError> {
             return machines::is_immediate(operation) ? std::nullopt : next(operation, bytes);
           });
       d.responder.receive_completion.override_with([](const auto& next, Stream& stream, const DdpSegment& message) {
         if (machines::is_immediate(machines::operation_of(message.control)))
           stream.fixed[0].resize(RdmapImmediateData::size);
         return next(stream, message);
       });
     }},
    {Fault::immediate_without_receive,
     [](Decisions& d) {
       d.segments.buffer.override_with([](const auto& next, const Stream& stream, const DdpSegment& segment) {
         if (segment.qn == 0 && machines::is_immediate(machines::operation_of(segment.control)))
           return machines::UntaggedBuffer{true, RdmapImmediateData::size};
         return next(stream, segment);
       });
       d.responder.consume_receive.override_with(
           [](const auto& next, Stream& stream, RdmapOperation operation) -> std::uint64_t {
             return machines::is_immediate(operation) ? 0 : next(stream, operation);
           });
     }},
    // Received Atomic Requests
    {Fault::executes_unknown_atomics,
     [](Decisions& d) {
       d.responder.judge_atomic.override_with(
           [](const auto& next, std::uint8_t operation, std::uint64_t address) -> std::optional<IwarpError> {
             const auto error = next(operation, address);
             return error == errors::unexpected_opcode ? std::nullopt : error;
           });
     }},
    {Fault::executes_misaligned_atomics,
     [](Decisions& d) {
       d.responder.judge_atomic.override_with(
           [](const auto& next, std::uint8_t operation, std::uint64_t address) -> std::optional<IwarpError> {
             const auto error = next(operation, address);
             return error == errors::stream_catastrophic ? std::nullopt : error;
           });
     }},
    {Fault::no_compare_swap,
     [](Decisions& d) {
       d.responder.judge_atomic.override_with(
           [](const auto& next, std::uint8_t operation, std::uint64_t address) -> std::optional<IwarpError> {
             if (operation == machines::atomic_compare_swap) return errors::unexpected_opcode;
             return next(operation, address);
           });
     }},
    {Fault::drops_atomics_beyond_ird,
     [](Decisions& d) {
       d.segments.reject.override_with(
           [](const auto& next, Stream& stream, const DdpSegment& segment, IwarpError error, Bytes ulpdu) {
             if (error == errors::untagged_no_buffer &&
                 machines::operation_of(segment.control) == RdmapOperation::atomic_request)
               stream.ddp = machines::placed(stream.ddp, segment);
             else
               next(stream, segment, error, ulpdu);
           });
     }},
    {Fault::atomics_write_back_late,
     [](Decisions& d) {
       d.responder.write_atomic.override_with(
           [](const auto& /*next*/, Stream& stream, std::uint64_t address, Bytes value) {
             stream.faults.writes.emplace_back(address, std::vector<std::uint8_t>(value.begin(), value.end()));
           });
       write_at_next_event(d);
     }},
    // Sent Immediate Data
    {Fault::immediate_of_four_bytes,
     [](Decisions& d) {
       d.requester.immediate_data.override_with([](const auto& next, const device::SendRequest& request) {
         std::vector<std::uint8_t> data = next(request);
         data.resize(4);
         return data;
       });
     }},
    {Fault::immediate_before_write,
     [](Decisions& d) {
       d.requester.sends_immediate.override_with([](const auto& next, const Work& work) {
         return work.request.opcode == device::WorkOpcode::write_imm ? work.begun == 1 : next(work);
       });
     }},
    // Sent Atomic Requests
    {Fault::atomic_reserved_bits,
     [](Decisions& d) {
       d.requester.atomic_request.override_with(
           [](const auto& next, const device::SendRequest& request, std::uint32_t id) {
             std::vector<std::uint8_t> header = next(request, id);
             header[3] |= 0x10;
             return header;
           });
     }},
    {Fault::atomics_outside_ord,
     [](Decisions& d) {
       d.requester.counts.override_with(
           [](const auto& next, device::WorkOpcode opcode) { return !is_atomic(opcode) && next(opcode); });
     }},
    {Fault::extensions_of_version_0,
     [](Decisions& d) {
       d.transmit.header.override_with([](const auto& next, const Stream& stream, const machines::DdpPiece& piece) {
         std::vector<std::uint8_t> header = next(stream, piece);
         if (machines::is_extension(stream.outgoing->operation)) clear_rdmap_version(header);
         return header;
       });
     }},
    // Sent Atomic Responses
    {Fault::atomic_response_on_request_queue,
     [](Decisions& d) {
       d.transmit.queue_of.override_with([](const auto& next, RdmapOperation operation) {
         return operation == RdmapOperation::atomic_response ? 1 : next(operation);
       });
     }},
    {Fault::changes_request_id,
     [](Decisions& d) {
       d.responder.atomic_response.override_with([](const auto& next, Bytes header, std::uint64_t original) {
         std::vector<std::uint8_t> response = next(header, original);
         response[3] ^= 1;
         return response;
       });
     }},
    {Fault::adds_without_carry,
     [](Decisions& d) {
       d.responder.operate.override_with([](const auto& next, Bytes header, std::uint64_t original) {
         return is_compare_swap(header) ? next(header, original)
                                        : original ^ View<RdmapAtomicRequest>(header.data()).get<"add_swap_data">();
       });
     }},
    {Fault::ignores_add_mask,
     [](Decisions& d) {
       d.responder.operate.override_with([](const auto& next, Bytes header, std::uint64_t original) {
         return next(is_compare_swap(header) ? header : Bytes(with_mask(header, add_mask_at, 0)), original);
       });
     }},
    {Fault::inverts_compare_swap,
     [](Decisions& d) {
       d.responder.operate.override_with([](const auto& next, Bytes header, std::uint64_t original) {
         return is_compare_swap(header) ? ~next(header, original) : next(header, original);
       });
     }},
    {Fault::ignores_compare_mask,
     [](Decisions& d) {
       d.responder.operate.override_with([](const auto& next, Bytes header, std::uint64_t original) {
         return next(with_mask(header, compare_mask_at, ~0ULL), original);
       });
     }},
};

}  // namespace

std::span<const FaultOverride> extension_overrides() { return extension_rows; }

}  // namespace rdmawire::endpoint
