#pragma once
/// Commands about connections by the CM.

#include "replay/rpc/message.hpp"

namespace rdmawire::rpc {

inline constexpr std::uint64_t most_private_data = 255;

/// Parameters of a connection in requests and replies.
struct ConnectionParameters {
  std::optional<QpHandle> qp = {};
  std::optional<std::uint32_t> qp_num = {};
  ByteVector private_data = {};
  std::optional<std::uint8_t> responder_resources = {}, initiator_depth = {};
  bool flow_control = false;
  std::uint8_t rnr_retry_count = 7;
  bool srq = false;
  bool answer_disconnect = true;
};

/// How an address is resolved.
struct Resolution {
  std::optional<std::string> source = {};
  std::optional<Choice<names::port_space>> port_space = {};
  std::uint32_t timeout_ms = 2000;
  std::optional<std::uint8_t> tos = {};
};

struct CmListen {
  std::string address = "0.0.0.0";
  std::uint16_t port = 0;
  std::uint32_t backlog = 16;
  Choice<names::port_space> port_space = "tcp";
  struct Result {
    CmHandle cm_id = {};
    std::uint16_t port = 0;
  };
  static const Command& command();
};

struct CmConnect : ConnectionParameters, Resolution {
  std::string address = {};
  std::uint16_t port = 0;
  std::uint8_t retry_count = 7;
  std::optional<std::uint8_t> ack_timeout = {};
  bool establish = true;
  struct Result {
    CmHandle cm_id = {};
  };
  static const Command& command();
};

struct CmAccept : ConnectionParameters {
  CmHandle cm_id = {};
  using Result = Nothing;
  static const Command& command();
};

struct CmEstablish {
  CmHandle cm_id = {};
  using Result = Nothing;
  static const Command& command();
};

struct CmReject {
  CmHandle cm_id = {};
  ByteVector private_data = {};
  using Result = Nothing;
  static const Command& command();
};

struct CmDisconnect {
  CmHandle cm_id = {};
  using Result = Nothing;
  static const Command& command();
};

struct CmJoin : Resolution {
  std::string address = {};
  std::optional<QpHandle> qp = {};
  bool send_only = false;
  struct Result {
    CmHandle cm_id = {};
  };
  static const Command& command();
};

}  // namespace rdmawire::rpc
