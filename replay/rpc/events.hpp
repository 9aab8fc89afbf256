#pragma once
/// Unsolicited messages.

#include "replay/rpc/queue_pair_commands.hpp"

namespace rdmawire::rpc {

/// An asynchronous event of a device.
struct AsyncEvent {
  Choice<names::async_event> type = {};
  DeviceHandle device = {};
  std::optional<std::uint8_t> port = {};
  std::optional<QpHandle> qp = {};
  std::optional<CqHandle> cq = {};
  std::optional<SrqHandle> srq = {};
  static const EventType& event();
};

struct CompletionEvent {
  std::optional<CqHandle> cq = {};
  static const EventType& event();
};

/// Reason of the end of an iWARP stream.
struct StreamError {
  std::uint32_t layer = 0, type = 0, code = 0;
  std::string by = {};
  static const Structure& structure();
};

struct CmEvent {
  CmHandle cm_id = {};
  Choice<names::cm_event> type = {};
  std::optional<std::uint32_t> error = {};
  std::optional<std::string> error_name = {};
  std::optional<std::uint32_t> reason = {}, status = {};
  std::optional<std::string> step = {}, message = {};
  std::optional<CmHandle> listener = {};
  std::optional<std::string> device = {};
  std::optional<std::uint8_t> port_num = {};
  std::optional<std::string> local_address = {};
  std::optional<std::uint16_t> local_port = {};
  std::optional<std::string> remote_address = {};
  std::optional<std::uint16_t> remote_port = {};
  std::optional<ByteVector> private_data = {};
  std::optional<std::uint8_t> responder_resources = {}, initiator_depth = {}, flow_control = {}, retry_count = {},
                              rnr_retry_count = {}, srq = {};
  std::optional<std::uint32_t> qp_num = {}, qkey = {};
  std::optional<AddressVector> ah = {};
  std::optional<StreamError> stream_error = {};
  static const EventType& event();
};

struct ProcessEvent {
  ProcessHandle process = {};
  std::string type = {};
  std::optional<ByteVector> data = {};
  std::optional<std::uint32_t> status = {}, signal = {};
  std::optional<std::string> name = {};
  std::optional<bool> core_dumped = {};
  std::optional<std::uint64_t> dropped = {};
  static const EventType& event();
};

struct EndedEvent {
  std::string why = {};
  static const EventType& event();
};

/// An event as JSON, with its name.
template <class Event>
Json event_of(const Event& event) {
  Json json = {{"event", Event::event().name}};
  json.update(write(&event, Event::event().fields));
  return json;
}
/// Reads an event. The error is the name of the invalid member.
template <class Event>
tl::expected<Event, std::string> read_event(const Received& object) {
  Event event{};
  Reader reader;
  reader.read(&event, object, Event::event().fields);
  if (reader.error()) return tl::unexpected(reader.wrong_member());
  return event;
}

}  // namespace rdmawire::rpc
