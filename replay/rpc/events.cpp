#include "replay/rpc/events.hpp"

namespace rdmawire::rpc {

const EventType& AsyncEvent::event() {
  using E = AsyncEvent;
  static const EventType& it =
      *new EventType{"async",
                     "An asynchronous event of a device.",
                     {required<&E::type>("type"), required<&E::device>("device"),
                      optional<&E::port>("port", "if the event concerns one"), optional<&E::qp>("qp", same),
                      optional<&E::cq>("cq", same), optional<&E::srq>("srq", same)}};
  return it;
}

const EventType& CompletionEvent::event() {
  static const EventType& it =
      *new EventType{"completion", "A completion, requested with `notify`.", {optional<&CompletionEvent::cq>("cq")}};
  return it;
}

const Structure& StreamError::structure() {
  using S = StreamError;
  static const Structure& it =
      *new Structure{"StreamError",
                     "The Terminate message that ended an iWARP stream.",
                     {required<&S::layer>("layer", "numbers of RFC 5040, 4.8"), required<&S::type>("type", same),
                      required<&S::code>("code", same), required<&S::by>("by", "`device` or `peer`")}};
  return it;
}

const EventType& CmEvent::event() {
  using E = CmEvent;
  constexpr std::string_view of_peer = "of the peer's request or reply",
                             address = "addresses of a connection, in `addr_resolved` and `connect_request`";
  static const EventType& it =
      *new EventType{"cm",
                     "A step of a connection.",
                     {required<&E::cm_id>("cm_id", "new in a `connect_request`"),
                      required<&E::type>("type"),
                      optional<&E::error>("errno", "number and name of an error of the kernel"),
                      optional<&E::error_name>("name", same),
                      optional<&E::reason>(
                          "reason",
                          "of `rejected`: IBTA vol 1, 12.6.7.2. 28: rejected by the application, 8: no listener. Over "
                          "iWARP, `errno` and `name` instead"),
                      optional<&E::status>("status", "another status of the kernel"),
                      optional<&E::step>("step", "of `failed`: the failed step of the agent, and its error"),
                      optional<&E::message>("message", same),
                      optional<&E::listener>("listener", "of `connect_request`"),
                      optional<&E::device>("device", "name of the device"),
                      optional<&E::port_num>("port_num"),
                      optional<&E::local_address>("local_address", address),
                      optional<&E::local_port>("local_port", same),
                      optional<&E::remote_address>("remote_address", same),
                      optional<&E::remote_port>("remote_port", same),
                      optional<&E::private_data>("private_data", "of the peer's message"),
                      optional<&E::responder_resources>("responder_resources", of_peer),
                      optional<&E::initiator_depth>("initiator_depth", same),
                      optional<&E::flow_control>("flow_control", same),
                      optional<&E::retry_count>("retry_count", same),
                      optional<&E::rnr_retry_count>("rnr_retry_count", same),
                      optional<&E::srq>("srq", same),
                      optional<&E::qp_num>("qp_num", "of the peer or the multicast group"),
                      optional<&E::qkey>("qkey", "of datagrams"),
                      optional<&E::ah>("ah", "of datagrams: arguments of `create_ah`"),
                      optional<&E::stream_error>("stream_error", "of `disconnected`", {.extension = true})}};
  return it;
}

const EventType& ProcessEvent::event() {
  using E = ProcessEvent;
  static const EventType& it = *new EventType{
      "process",
      "Output or the end of a program, see `run`.",
      {required<&E::process>("process"), required<&E::type>("type", "`stdout`, `stderr`, `exited`, `killed`"),
       optional<&E::data>("data", "of `stdout` and `stderr`: output"),
       optional<&E::status>("status", "of `exited`: exit status"),
       optional<&E::signal>("signal", "of `killed`: number and name of the signal"), optional<&E::name>("name", same),
       optional<&E::core_dumped>("core_dumped", "of `killed`"),
       optional<&E::dropped>("dropped", "of `exited` and `killed`: output bytes after `most_output`")}};
  return it;
}

const EventType& EndedEvent::event() {
  static const EventType& it = *new EventType{"ended",
                                              "The session has ended, and a new `hello` is required.",
                                              {required<&EndedEvent::why>("why", "the reason")}};
  return it;
}

}  // namespace rdmawire::rpc
