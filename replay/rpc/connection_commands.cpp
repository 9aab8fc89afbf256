#include "replay/rpc/connection_commands.hpp"

namespace rdmawire::rpc {
namespace {

constexpr Limits private_data_limit{.most = most_private_data};
constexpr std::string_view private_data_meaning = "some transports permit fewer bytes";

template <class M>
void add_parameters(Fields& fields) {
  using C = ConnectionParameters;
  fields.insert(
      fields.end(),
      {
          optional<&C::qp, M>("qp",
                              "a QP of the device that the route uses. Its state changes from RESET to INIT, during "
                              "connection establishment to RTR and RTS, and at the end to ERR"),
          optional<&C::qp_num, M>("qp_num", "instead of `qp`, a QP whose states the controller changes itself",
                                  {.most = 0xff'ffff}),
          optional<&C::private_data, M>("private_data", private_data_meaning, private_data_limit),
          optional<&C::responder_resources, M>(
              "responder_resources", "incoming outstanding READs and atomics (default: maximum of both endpoints)"),
          optional<&C::initiator_depth, M>(
              "initiator_depth", "outgoing outstanding READs and atomics (default: maximum of both endpoints)"),
          optional<&C::flow_control, M>("flow_control"),
          optional<&C::rnr_retry_count, M>("rnr_retry_count", {}, {.most = 7}),
          optional<&C::srq, M>("srq", "the QP has an SRQ. Known if `qp` is given"),
          optional<&C::answer_disconnect, M>("answer_disconnect", "reply to a disconnect of the peer"),
      });
}

template <class M>
void add_resolution(Fields& fields, std::string_view port_spaces) {
  using R = Resolution;
  fields.insert(fields.end(),
                {
                    optional<&R::source, M>("source", "the source address"),
                    optional<&R::port_space, M>("port_space", port_spaces),
                    optional<&R::timeout_ms, M>("timeout_ms", "for address resolution and for route resolution",
                                                {.least = 1, .most = 60'000}),
                    optional<&R::tos, M>("tos", "type of service"),
                });
}

}  // namespace

const Command& CmListen::command() {
  static const Command& it = *new Command{
      .name = "cm_listen",
      .does =
          "Listens for connections. Requests are reported as events `cm` of type `connect_request`, each with a new "
          "`cm_id`.",
      .arguments = {optional<&CmListen::address>("address", "IPv4 or IPv6"),
                    optional<&CmListen::port>("port", "0: any free port"),
                    optional<&CmListen::backlog>("backlog", "pending requests", {.most = 1024}),
                    optional<&CmListen::port_space>("port_space")},
      .result = {required<&Result::cm_id>("cm_id"), required<&Result::port>("port")},
      .example = R"({"address":"10.0.0.1","port":7471})",
      .answers = R"({"cm_id":6,"port":7471})"};
  return it;
}

const Command& CmConnect::command() {
  static const Command& it = *new Command([] {
    Command made = {
        .name = "cm_connect",
        .does =
            "Requests a connection or, in the port spaces udp and ipoib, a QP number and a Q_Key. Responds "
            "immediately. Events of type `addr_resolved`, `route_resolved` and `established` follow, or an error: "
            "`addr_error`, `route_error`, `unreachable`, `connect_error`, `rejected`, or `failed` with the failed "
            "`step`.",
        .arguments = {required<&CmConnect::address>("address", "IPv4 or IPv6"), required<&CmConnect::port>("port")},
        .result = {required<&Result::cm_id>("cm_id")},
        .example = R"({"address":"10.0.0.1","port":7471,"qp":5,"private_data":"6869"})",
        .answers = R"({"cm_id":7})"};
    Fields& fields = made.arguments;
    add_parameters<CmConnect>(fields);
    fields.push_back(optional<&CmConnect::retry_count>("retry_count", {}, {.most = 7}));
    fields.push_back(optional<&CmConnect::ack_timeout>("ack_timeout", "4.096 µs * 2^value", {.most = 31}));
    fields.push_back(optional<&CmConnect::establish>(
        "establish", "if false, the peer's response is reported as `connect_response` and requires `cm_establish`"));
    add_resolution<CmConnect>(fields, "(default `tcp`)");
    return made;
  }());
  return it;
}

const Command& CmAccept::command() {
  static const Command& it = *new Command([] {
    Command made = {.name = "cm_accept",
                    .does = "Accepts a request. The event `established` follows the peer's response.",
                    .arguments = {required<&CmAccept::cm_id>("cm_id", "from a `connect_request`")},
                    .example = R"({"cm_id":7,"qp":5,"private_data":"796f"})",
                    .answers = "{}"};
    add_parameters<CmAccept>(made.arguments);
    return made;
  }());
  return it;
}

const Command& CmEstablish::command() {
  static const Command& it = *new Command{
      .name = "cm_establish",
      .does =
          "Answers a `connect_response`: changes the QP to RTR and RTS and sends a ready-to-use message to the peer.",
      .arguments = {required<&CmEstablish::cm_id>("cm_id")},
      .example = R"({"cm_id":7})",
      .answers = "{}"};
  return it;
}

const Command& CmReject::command() {
  static const Command& it = *new Command{
      .name = "cm_reject",
      .does =
          "Rejects a request or a response. The peer gets `rejected` with reason 28 (iWARP: errno ECONNRESET) and "
          "the private data.",
      .arguments = {required<&CmReject::cm_id>("cm_id"),
                    optional<&CmReject::private_data>("private_data", private_data_meaning, private_data_limit)},
      .example = R"({"cm_id":7,"private_data":"6e6f"})",
      .answers = "{}"};
  return it;
}

const Command& CmDisconnect::command() {
  static const Command& it = *new Command{
      .name = "cm_disconnect",
      .does = "Ends a connection. Its QP changes to ERR. Both endpoints get `disconnected`, and later `timewait_exit`.",
      .arguments = {required<&CmDisconnect::cm_id>("cm_id")},
      .example = R"({"cm_id":7})",
      .answers = "{}"};
  return it;
}

const Command& CmJoin::command() {
  static const Command& it = *new Command([] {
    Command made = {
        .name = "cm_join",
        .does =
            "Joins a multicast group. The event `multicast_join` follows, with `ah` (arguments of `create_ah`), "
            "`qp_num` and `qkey`, or `multicast_error`. Destroying the handle leaves the group.",
        .arguments = {required<&CmJoin::address>("address", "the address of the multicast group"),
                      optional<&CmJoin::qp>("qp", "a UD QP, which is changed to RTS and attached"),
                      optional<&CmJoin::send_only>("send_only")},
        .result = {required<&Result::cm_id>("cm_id")},
        .example = R"({"address":"239.1.2.3","source":"10.0.0.1","qp":5})",
        .answers = R"({"cm_id":8})"};
    add_resolution<CmJoin>(made.arguments, "(default `udp`)");
    return made;
  }());
  return it;
}

}  // namespace rdmawire::rpc
