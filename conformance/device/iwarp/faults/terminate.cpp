/// Faults of Terminate messages.

#include <algorithm>

#include "conformance/device/iwarp/faults/overrides.hpp"
#include "conformance/device/iwarp/stream.hpp"

namespace rdmawire::endpoint {

namespace {

using machines::IwarpError;
using machines::TerminateCause;
using Message = std::vector<std::uint8_t>;

// Bytes of a Terminate.
constexpr std::size_t layer_and_type_at = 0, code_at = 1, includes_at = 2, segment_length_at = 4, header_at = 6;
constexpr std::uint8_t length_valid = 0x80, ddp_header = 0x40,
                       rdma_header = 0x20;  ///< M, D and R

// Layer and type.
constexpr std::uint8_t local_catastrophic = 0x00, protection_error = 0x01, operation_error = 0x02;

std::uint8_t layer_of(const Message& message) { return message[layer_and_type_at] >> 4; }
bool quotes_segment(const Message& message) { return message.size() > header_at; }

void append_read_request(Message& message, Bytes header) {
  message[includes_at] |= rdma_header;
  message.resize(message.size() + RdmapReadRequest::size);
  std::copy(header.begin(), header.end(), message.end() - RdmapReadRequest::size);
}

void remove_headers(Message& message) {
  message.resize(Terminate::size);
  message[includes_at] = 0;
}

constexpr FaultOverride terminate_rows[] = {
    // Errors
    {Fault::terminate_as_little_endian,
     [](Decisions& d) {
       d.terminate.message.override_with([](const auto& next, IwarpError error, const TerminateCause& cause) {
         Message message = next(error, cause);
         const std::uint8_t kind = message[layer_and_type_at], bits = message[includes_at];
         message[layer_and_type_at] = static_cast<std::uint8_t>(kind << 4 | kind >> 4);
         message[includes_at] =
             static_cast<std::uint8_t>(bits >> 7 | (bits & ddp_header) >> 5 | (bits & rdma_header) >> 3);
         return message;
       });
     }},
    {Fault::terminate_of_no_table,
     [](Decisions& d) {
       d.terminate.message.override_with([](const auto& next, IwarpError error, const TerminateCause& cause) {
         Message message = next(error, cause);
         message[code_at] = 0x7e;
         return message;
       });
     }},
    {Fault::wrap_is_catastrophic,
     [](Decisions& d) {
       d.terminate.message.override_with([](const auto& next, IwarpError error, const TerminateCause& cause) {
         Message message = next(error, cause);
         if (error == machines::iwarp_error::tagged_to_wrap) {
           message[layer_and_type_at] = terminate_layer::ddp << 4;
           message[code_at] = 0;
         }
         return message;
       });
     }},
    {Fault::unspecified_read_errors,
     [](Decisions& d) {
       d.terminate.message.override_with([](const auto& next, IwarpError error, const TerminateCause& cause) {
         Message message = next(error, cause);
         if (message[layer_and_type_at] == protection_error) message[code_at] = 0xff;
         return message;
       });
     }},
    // Quoted headers
    {Fault::terminate_length_of_payload,
     [](Decisions& d) {
       d.terminate.message.override_with([](const auto& next, IwarpError error, const TerminateCause& cause) {
         Message message = next(error, cause);
         if (quotes_segment(message)) {
           const bool tagged = (message[header_at] & 0x80) != 0;
           std::uint8_t* length = message.data() + segment_length_at;
           store_be(length, 2, load_be<2>(length) - machines::ddp_header_bytes(tagged));
         }
         return message;
       });
     }},
    {Fault::terminate_without_read,
     [](Decisions& d) {
       d.terminate.message.override_with([](const auto& next, IwarpError error, const TerminateCause& cause) {
         Message message = next(error, cause);
         if ((message[includes_at] & rdma_header) != 0) {
           message.resize(message.size() - RdmapReadRequest::size);
           message[includes_at] &= static_cast<std::uint8_t>(~rdma_header);
         }
         return message;
       });
     }},
    {Fault::terminate_quotes_zeros,
     [](Decisions& d) {
       d.terminate.message.override_with([](const auto& next, IwarpError error, const TerminateCause& cause) {
         Message message = next(error, cause);
         if (quotes_segment(message)) std::fill(message.begin() + header_at, message.end(), std::uint8_t{0});
         return message;
       });
     }},
    {Fault::terminated_read_stands,
     [](Decisions& d) {
       d.terminate.message.override_with([](const auto& next, IwarpError error, const TerminateCause& cause) {
         TerminateCause whole = cause;
         whole.answered = 0;
         return next(error, whole);
       });
     }},
    {Fault::catastrophe_quotes,
     [](Decisions& d) {
       d.terminate.message.override_with([](const auto& next, IwarpError error, const TerminateCause& cause) {
         Message message = next(error, cause);
         if (message[layer_and_type_at] == local_catastrophic) {
           message[includes_at] = length_valid | ddp_header;
           message.resize(header_at + machines::ddp_header_bytes(false));
         }
         return message;
       });
     }},
    {Fault::protection_without_header,
     [](Decisions& d) {
       d.terminate.message.override_with([](const auto& next, IwarpError error, const TerminateCause& cause) {
         Message message = next(error, cause);
         if (message[layer_and_type_at] == protection_error) remove_headers(message);
         return message;
       });
     }},
    {Fault::operation_quotes_read,
     [](Decisions& d) {
       d.terminate.message.override_with([](const auto& next, IwarpError error, const TerminateCause& cause) {
         Message message = next(error, cause);
         if (message[layer_and_type_at] == operation_error && quotes_segment(message))
           append_read_request(message, Message(RdmapReadRequest::size));
         return message;
       });
     }},
    {Fault::atomic_error_quotes,
     [](Decisions& d) {
       d.terminate.message.override_with([](const auto& next, IwarpError error, const TerminateCause& cause) {
         Message message = next(error, cause);
         if (message[layer_and_type_at] == protection_error && quotes_segment(message) &&
             machines::operation_of(message[header_at + 1]) == RdmapOperation::atomic_request)
           append_read_request(message,
                               cause.segment.subspan(machines::ddp_header_bytes(false)).first(RdmapReadRequest::size));
         return message;
       });
     }},
    {Fault::ddp_error_without_header,
     [](Decisions& d) {
       d.terminate.message.override_with([](const auto& next, IwarpError error, const TerminateCause& cause) {
         Message message = next(error, cause);
         if (layer_of(message) == terminate_layer::ddp) remove_headers(message);
         return message;
       });
     }},
    {Fault::mpa_error_with_header,
     [](Decisions& d) {
       d.terminate.message.override_with([](const auto& next, IwarpError error, const TerminateCause& cause) {
         Message message = next(error, cause);
         if (layer_of(message) == terminate_layer::llp) message[includes_at] = ddp_header;
         return message;
       });
     }},
    // Transmission
    {Fault::terminate_on_queue_0,
     [](Decisions& d) {
       d.transmit.queue_of.override_with([](const auto& next, RdmapOperation operation) {
         return operation == RdmapOperation::terminate ? 0 : next(operation);
       });
     }},
    {Fault::terminates_anywhere,
     [](Decisions& d) {
       d.transmit.header.override_with([](const auto& next, const Stream& stream, const machines::DdpPiece& piece) {
         constexpr std::size_t msn_end = 13;
         std::vector<std::uint8_t> header = next(stream, piece);
         if (stream.outgoing->operation == RdmapOperation::terminate) ++header[msn_end];
         return header;
       });
     }},
    {Fault::terminate_inside_message,
     [](Decisions& d) {
       d.transmit.send_segment.override_with([](const auto& next, Stream& stream) {
         if (stream.terminate) {
           stream.outgoing.reset();
           (void)choose_next(stream);
         }
         next(stream);
       });
     }},
    {Fault::terminates_twice,
     [](Decisions& d) {
       d.transmit.end_message.override_with([](const auto& next, Stream& stream) {
         const bool terminate = stream.outgoing->operation == RdmapOperation::terminate;
         Message message = stream.outgoing->content;
         next(stream);
         if (!terminate || !stream.fin || stream.faults.terminated_twice) return;
         stream.faults.terminated_twice = true;
         stream.terminate = std::move(message);
       });
     }},
    {Fault::sends_after_terminate,
     [](Decisions& d) {
       d.transmit.end_message.override_with([](const auto& next, Stream& stream) {
         const bool terminate = stream.outgoing->operation == RdmapOperation::terminate;
         next(stream);
         if (terminate) begin(stream, RdmapOperation::send, {1, 2, 3, 4});
       });
     }},
    // Received messages
    {Fault::silent_malformed_terminate,
     [](Decisions& d) {
       d.responder.reject_message.override_with(
           [](const auto& next, Stream& stream, RdmapOperation operation, IwarpError error, Bytes ulpdu) {
             if (operation != RdmapOperation::terminate) next(stream, operation, error, ulpdu);
           });
     }},
    {Fault::terminate_needs_receive,
     [](Decisions& d) {
       d.terminate.handle.override_with([](const auto& next, Stream& stream, IwarpError error) {
         if (!stream.receives.empty()) next(stream, error);
       });
     }},
};

}  // namespace

std::span<const FaultOverride> terminate_overrides() { return terminate_rows; }

}  // namespace rdmawire::endpoint
