#pragma once
/// Text for packets and messages, with relative PSNs.

#include <string>

#include "replay/reactive/exchange.hpp"

namespace rdmawire::replay::reactive {

/// "SEND of 8192 bytes", "READ of 64 bytes"
std::string words_of(const Message& message);
/// "ACK, PSN +3, MSN 4", "NAK PSN sequence error, PSN +3", "RC RDMA READ response First PSN +3, 1024 bytes"
std::string words_of(const tracking::TransportPacket& t, std::int64_t psn);
std::string words_of(const CapturedAnswer& answer);

}  // namespace rdmawire::replay::reactive
