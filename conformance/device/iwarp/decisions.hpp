#pragma once
/// Decisions of an endpoint that faults can override. The endpoint calls them through Stream::decisions(). The
/// functions in `conforming` follow the RFCs. The files in faults/ contain the overrides.

#include <cstdint>
#include <optional>
#include <vector>

#include "conformance/device/common/overridable.hpp"
#include "conformance/device/iwarp/faults.hpp"
#include "dissectors/machines/mpa_framing.hpp"
#include "dissectors/machines/mpa_setup.hpp"
#include "dissectors/machines/rdmap.hpp"
#include "dissectors/protocol/mpa.hpp"

namespace rdmawire::endpoint {

using device::Overridable;

struct Stream;

namespace conforming {

// MPA negotiation: mpa_setup.cpp
/// Return the settings that the endpoint negotiates: those of its options.
machines::MpaSettings settings(const machines::MpaSettings& configured);
/// Return the time until which a responder waits for the request. The timeout detects two responders: RFC 5044, 7.1.2
/// rule 8.
std::int64_t request_deadline(const Stream& stream);
/// Return the time until which the rest of a partial frame must arrive: the timeout is for the whole frame. RFC 5044,
/// 7.1.2 rule 10.
std::int64_t rest_deadline(const Stream& stream);
/// Return an MPA Request or Reply Frame. RFC 5044, 7.1.1, RFC 6581, 6 and 9.
std::vector<std::uint8_t> encode_setup(const machines::MpaSetupFrame& frame, Bytes private_data);
/// Return the state of the peer's frame after these bytes. RFC 5044, 7.1.1 and 7.1.2 rules 2, 3, 5, 8 and 9.
machines::MpaSetupArrival read_setup(const Stream& stream, Bytes bytes);
/// Return the responder's reaction to a complete request. `more_follows`: bytes follow it, although the initiator sends
/// nothing before the reply: PD_Length is too small. RFC 5044, 7.1.1, RFC 6581, 10.
machines::MpaRequestVerdict judge_request(const machines::MpaSettings& own, const machines::MpaSetupFrame& request,
                                          bool more_follows);
/// True if only the application may reject the request. Required markers are no reason to reject it: RFC 5044, 7.1.1.
bool asks_application(const machines::MpaSetupFrame& request);
/// Return the reply of a responder whose application accepts, and its negotiated parameters. RFC 6581, 9.1 and 9.2.
machines::MpaAnswer accept_request(const machines::MpaSettings& own, const machines::MpaSetupFrame& request);
/// Return the reply of a responder whose application rejects. RFC 5044, 7.1.2 rule 2. nullopt: it sends no reply.
std::optional<machines::MpaSetupFrame> reject_request(const machines::MpaSettings& own,
                                                      const machines::MpaSetupFrame& request);
/// Return the initiator's reaction to a complete reply. RFC 5044, 7.1.2 rule 3, RFC 6581, 9 and 10.
machines::MpaReplyVerdict judge_reply(const machines::MpaSettings& own, const machines::MpaSetupFrame& request,
                                      const machines::MpaSetupFrame& reply);
/// Return the bytes after the reply that belong to FPDUs: all. RFC 5044, 7.1.2 rule 3.
std::vector<std::uint8_t> bytes_after_reply(std::vector<std::uint8_t> following);
/// True if the first FPDU of the initiator is the RTR indication: if one was negotiated. RFC 6581, 9.2.
bool sends_rtr(const machines::MpaAgreement& agreement);

// FPDUs: fpdu.cpp
/// Return how received FPDUs are read: as negotiated. RFC 5044, 7.1.1.
machines::FpduModes fpdu_modes(const machines::MpaAgreement& agreement);
/// Return the state of the FPDU that starts with these bytes: CRC and markers are checked. RFC 5044, 4.1 to 4.4 and 8.
machines::FpduArrival judge_fpdu(Bytes bytes, std::uint64_t position, machines::FpduModes modes);
/// Report an invalid FPDU. Its ULPDU is not passed to DDP. RFC 5044, 8.
void reject_fpdu(Stream& stream, Bytes bytes, const machines::FpduArrival& arrival);
/// Return the sender of FPDUs. If the peer required markers, the first one precedes the first FPDU: RFC 5044, 7.1.2
/// rule 7.
MpaSender fpdu_sender(const machines::MpaAgreement& agreement);
/// Send a ULPDU. An FPDU contains exactly one: RFC 5044, 3. `last`: the ULPDU ends its message.
void send_ulpdu(Stream& stream, Bytes ulpdu, bool last);
/// Return the FPDU of a ULPDU. RFC 5044, 4.1 to 4.4. Empty if the ULPDU is too long.
std::vector<std::uint8_t> fpdu(Stream& stream, Bytes ulpdu);
/// Return the maximum ULPDU. RFC 5044, 4.5.
std::uint32_t mulpdu(std::uint32_t emss, const machines::MpaAgreement& agreement);
/// Return the EMSS after TCP reported `emss`: the MULPDU changes with it. RFC 5044, 4.5.
std::uint32_t new_emss(const Stream& stream, std::uint32_t emss);

// States of the stream: endpoint.cpp
/// True if FPDUs are received in this state: until an error or a FIN. RFC 5041, 6.2.
bool receives(machines::StreamState state);

}  // namespace conforming

/// Decisions of the MPA negotiation.
struct SetupDecisions {
  Overridable<machines::MpaSettings(const machines::MpaSettings&)> settings = conforming::settings;
  Overridable<std::int64_t(const Stream&)> request_deadline = conforming::request_deadline;
  Overridable<std::int64_t(const Stream&)> rest_deadline = conforming::rest_deadline;
  Overridable<std::vector<std::uint8_t>(const machines::MpaSetupFrame&, Bytes)> encode = conforming::encode_setup;
  Overridable<machines::MpaSetupArrival(const Stream&, Bytes)> read = conforming::read_setup;
  Overridable<machines::MpaRequestVerdict(const machines::MpaSettings&, const machines::MpaSetupFrame&, bool)>
      judge_request = conforming::judge_request;
  Overridable<bool(const machines::MpaSetupFrame&)> asks_application = conforming::asks_application;
  Overridable<machines::MpaAnswer(const machines::MpaSettings&, const machines::MpaSetupFrame&)> accept_request =
      conforming::accept_request;
  Overridable<std::optional<machines::MpaSetupFrame>(const machines::MpaSettings&, const machines::MpaSetupFrame&)>
      reject_request = conforming::reject_request;
  Overridable<machines::MpaReplyVerdict(const machines::MpaSettings&, const machines::MpaSetupFrame&,
                                        const machines::MpaSetupFrame&)>
      judge_reply = conforming::judge_reply;
  Overridable<std::vector<std::uint8_t>(std::vector<std::uint8_t>)> bytes_after_reply = conforming::bytes_after_reply;
  Overridable<bool(const machines::MpaAgreement&)> sends_rtr = conforming::sends_rtr;
};

/// Decisions about FPDUs.
struct FpduDecisions {
  Overridable<machines::FpduModes(const machines::MpaAgreement&)> modes = conforming::fpdu_modes;
  Overridable<machines::FpduArrival(Bytes, std::uint64_t, machines::FpduModes)> judge = conforming::judge_fpdu;
  Overridable<void(Stream&, Bytes, const machines::FpduArrival&)> reject = conforming::reject_fpdu;
  Overridable<MpaSender(const machines::MpaAgreement&)> sender = conforming::fpdu_sender;
  Overridable<void(Stream&, Bytes, bool)> send_ulpdu = conforming::send_ulpdu;
  Overridable<std::vector<std::uint8_t>(Stream&, Bytes)> fpdu = conforming::fpdu;
  Overridable<std::uint32_t(std::uint32_t, const machines::MpaAgreement&)> mulpdu = conforming::mulpdu;
  Overridable<std::uint32_t(const Stream&, std::uint32_t)> new_emss = conforming::new_emss;
};

/// Decisions about the states of a stream.
struct StateDecisions {
  Overridable<bool(machines::StreamState)> receives = conforming::receives;
};

/// All decisions.
struct Decisions {
  SetupDecisions setup;
  FpduDecisions fpdus;
  StateDecisions states;
};

/// Return the decisions of an endpoint with these faults.
Decisions decisions_with(const Faults& faults);

}  // namespace rdmawire::endpoint
