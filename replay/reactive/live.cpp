#include "replay/reactive/live.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "replay/reactive/wording.hpp"

namespace rdmawire::replay::reactive {
namespace {

using tracking::MessageKind;
using namespace std::chrono_literals;

constexpr std::uint32_t send_depth = 64;
constexpr std::size_t most_receives = 256;
constexpr std::uint32_t completions = 1024;

tl::unexpected<std::string> refused(const std::string& doing, const peer::PeerError& error) {
  return tl::unexpected(fmt::format("{}: {}", doing, error.message));
}

std::string opcode_of(const Message& message) {
  switch (message.kind) {
    case MessageKind::read: return "read";
    case MessageKind::compare_swap: return "compare_swap";
    case MessageKind::fetch_add: return "fetch_add";
    case MessageKind::write: return message.has_immediate ? "write_imm" : "write";
    default: return message.has_invalidate ? "send_inv" : message.has_immediate ? "send_imm" : "send";
  }
}

}  // namespace

LiveResult<LiveEnd> LiveEnd::make(const LiveDevice& device, const Exchange& exchange, const MemoryPlan& plan) {
  LiveEnd end;
  end.exchange_ = &exchange;
  end.plan_ = &plan;
  const peer::Device& verbs = *device.verbs;
  auto pd = verbs.protection_domain();
  if (!pd) return refused("create a protection domain", pd.error());
  end.pd_ = std::move(*pd);
  for (peer::CompletionQueue* queue : {&end.send_cq_, &end.recv_cq_}) {
    auto cq = verbs.completion_queue(completions);
    if (!cq) return refused("create a completion queue", cq.error());
    *queue = std::move(*cq);
  }
  const auto& messages = exchange.ours.messages;
  peer::Names access{"local_write", "remote_write"};
  if (!exchange.is_unreliable()) access.push_back("remote_read");
  if (std::any_of(messages.begin(), messages.end(), [](const Message& one) { return one.is_atomic(); }))
    access.push_back("remote_atomic");
  for (const PlannedRegion& planned : plan.regions) {
    auto region = end.pd_.region(planned.expected.size(), access);
    if (!region) return refused(fmt::format("register {} bytes of memory", planned.expected.size()), region.error());
    end.regions_.push_back(std::move(*region));
  }
  for (const auto& [bytes, room] : {std::pair{plan.inbox_bytes, &end.inbox_}, {plan.outbox_bytes, &end.outbox_}}) {
    if (bytes == 0) continue;
    // iWARP requires remote write access to the sink of a READ.
    auto region = end.pd_.region(bytes, {"local_write", "remote_write"});
    if (!region) return refused(fmt::format("register {} bytes of memory", bytes), region.error());
    *room = std::move(*region);
  }
  constexpr std::uint64_t usual_reads = 16;
  const std::uint64_t most_reads = verbs.limit("max_qp_rd_atom");
  end.reads_ = static_cast<std::uint8_t>(most_reads == 0 ? 1 : std::min(most_reads, usual_reads));
  const std::uint64_t most_wr = verbs.limit("max_qp_wr");
  end.receive_depth_ = std::min(plan.inbox.size(), most_wr == 0 ? 16 : std::min<std::size_t>(most_receives, most_wr));
  if (exchange.is_unreliable()) {
    // UC does not report when a receive work request was consumed, so all of them are posted at the start.
    const std::size_t most = std::min<std::size_t>(completions, most_wr == 0 ? 16 : most_wr);
    if (plan.inbox.size() > most)
      return tl::unexpected(
          fmt::format("{} messages consume receive work requests; over UC at "
                      "most {} can be replayed; replay a part of the capture",
                      plan.inbox.size(), most));
    end.receive_depth_ = plan.inbox.size();
  }
  auto qp =
      end.pd_.queue_pair({.type = exchange.is_unreliable() ? "uc" : "rc",
                          .send_cq = &end.send_cq_,
                          .recv_cq = &end.recv_cq_,
                          .max_send_wr = send_depth,
                          .max_recv_wr = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(end.receive_depth_))});
  if (!qp) return refused("create a queue pair", qp.error());
  end.qp_ = std::move(*qp);
  if (auto ready = end.qp_.to_init(); !ready) return refused("change the queue pair to INIT", ready.error());
  if (auto filled = end.fill(); !filled) return tl::unexpected(filled.error());
  if (auto posted = end.post_receives(end.receive_depth_); !posted) return tl::unexpected(posted.error());
  return end;
}

LiveResult<void> LiveEnd::fill() const {
  const auto write = [](const peer::Region& region, std::uint64_t offset, Bytes bytes) -> LiveResult<void> {
    const bool zeros = std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t byte) { return byte == 0; });
    if (zeros) return {};  // registered memory is zero
    if (auto written = region.write(offset, bytes); !written)
      return refused("write the device's memory", written.error());
    return {};
  };
  for (std::size_t i = 0; i < regions_.size(); ++i)
    if (auto written = write(regions_[i], 0, plan_->regions[i].initial); !written) return written;
  // One write for all messages, because each write is a request to the agent.
  ByteVector outbox(plan_->outbox_bytes);
  for (std::size_t i = 0; i < plan_->outbox.size(); ++i) {
    const Message& message = exchange_->theirs.messages[i];
    if (message.is_read() || message.is_atomic()) continue;
    std::copy(message.payload.begin(), message.payload.end(),
              outbox.begin() + static_cast<std::ptrdiff_t>(plan_->outbox[i].offset));
  }
  return outbox.empty() ? LiveResult<void>() : write(outbox_, 0, outbox);
}

LiveResult<void> LiveEnd::post_receives(std::size_t most) {
  std::vector<peer::ReceiveRequest> requests;
  for (auto next = plan_->inbox.lower_bound(next_receive_); next != plan_->inbox.end() && requests.size() < most;
       ++next) {
    requests.push_back({next->first, {inbox_.piece(next->second.offset, next->second.length)}});
    next_receive_ = next->first + 1;
  }
  if (requests.empty()) return {};
  receives_waiting_ += requests.size();
  if (auto posted = qp_.post_recv(requests); !posted)
    return refused(fmt::format("post {} receive work requests", requests.size()), posted.error());
  return {};
}

LiveResult<void> LiveEnd::keep_receiving(std::size_t done) {
  for (auto one = plan_->inbox.lower_bound(receives_done_); one != plan_->inbox.end() && one->first < done; ++one)
    if (receives_waiting_ > 0) --receives_waiting_;
  receives_done_ = std::max(receives_done_, done);
  // Posts in batches, because each call is a request to the agent.
  if (receives_waiting_ * 2 > receive_depth_) return {};
  return post_receives(receive_depth_ - receives_waiting_);
}

LiveResult<void> LiveEnd::poke(const Poke& poke) const {
  if (auto written = regions_[poke.region].write(poke.offset, poke.bytes); !written)
    return refused("write the device's memory", written.error());
  return {};
}

LiveResult<void> LiveEnd::post(const std::vector<std::size_t>& messages) const {
  std::vector<peer::SendRequest> requests;
  for (const std::size_t index : messages) {
    const Message& message = exchange_->theirs.messages[index];
    const Slot& slot = plan_->outbox[index];
    peer::SendRequest request{.opcode = opcode_of(message), .wr_id = index};
    if (slot.length != 0) request.sges.push_back(outbox_.piece(slot.offset, slot.length));
    request.remote_addr = message.remote_address;
    request.rkey = message.key;
    request.imm = static_cast<std::uint32_t>(message.immediate);
    request.invalidate_rkey = message.invalidated_key;
    request.compare = message.compare;
    (message.kind == MessageKind::fetch_add ? request.add : request.swap) = message.operand;
    if (message.solicited) request.flags.push_back("solicited");
    requests.push_back(std::move(request));
  }
  if (requests.empty()) return {};
  if (auto posted = qp_.post_send(requests); !posted)
    return refused(fmt::format("post the peer's messages {} to {}", messages.front() + 1, messages.back() + 1),
                   posted.error());
  return {};
}

LiveResult<void> LiveEnd::poll() {
  for (const auto& [queue, taken] : {std::pair{&send_cq_, &sent_}, {&recv_cq_, &received_}}) {
    for (;;) {
      auto some = queue->poll(64, 0ms);
      if (!some) return refused("poll for completions", some.error());
      if (some->empty()) break;
      for (peer::Completion& one : *some) taken->insert_or_assign(one.wr_id, std::move(one));
    }
  }
  return {};
}

LiveResult<std::vector<MemoryCheck>> LiveEnd::compare(std::size_t ours, std::size_t theirs) const {
  std::vector<MemoryCheck> checks;
  if (ours == exchange_->ours.messages.size()) {
    for (std::size_t i = 0; i < regions_.size(); ++i) {
      const PlannedRegion& planned = plan_->regions[i];
      auto there = regions_[i].read(0, planned.expected.size());
      if (!there) return refused("read the device's memory", there.error());
      MemoryCheck result{.what = fmt::format("the region of captured key {:#x}", planned.key), .good = true};
      for (std::size_t k = 0; k < planned.expected.size(); ++k) {
        if (!planned.known[k]) continue;
        ++result.bytes;
        if (!result.good || (*there)[k] == planned.expected[k]) continue;
        result.good = false;
        result.difference = fmt::format("byte {} (captured address {:#x}) is {:#04x}, captured {:#04x}", k,
                                        planned.base + k, (*there)[k], planned.expected[k]);
      }
      checks.push_back(std::move(result));
    }
  }
  // The inbox and the outbox are contiguous: one request reads all data, then the messages are compared.
  for (const bool sent_by_us : {true, false}) {
    const peer::Region& room = sent_by_us ? inbox_ : outbox_;
    const std::uint64_t bytes = sent_by_us ? plan_->inbox_bytes : plan_->outbox_bytes;
    if (bytes == 0) continue;
    auto there = room.read(0, bytes);
    if (!there) return refused("read the device's memory", there.error());
    MemoryCheck result{.what = sent_by_us ? "received data" : "sent and read data", .good = true};
    const auto look = [&](std::size_t index, const Message& message, const Slot& slot) {
      ByteVector expected = message.payload;
      if (message.is_atomic()) expected = atomic_bytes(message.original);
      expected.resize(std::min<std::size_t>(expected.size(), slot.length));
      result.bytes += expected.size();
      const auto begin = there->begin() + static_cast<std::ptrdiff_t>(slot.offset);
      const auto differs = std::mismatch(expected.begin(), expected.end(), begin);
      if (differs.first == expected.end() || !result.good) return;
      result.good = false;
      result.difference =
          fmt::format("message {} ({}, frame {}): byte {} is {:#04x}, captured {:#04x}", index + 1, words_of(message),
                      message.first_frame, differs.first - expected.begin(), *differs.second, *differs.first);
    };
    if (sent_by_us) {
      for (const auto& [index, slot] : plan_->inbox)
        if (index < ours) look(index, exchange_->ours.messages[index], slot);
    } else {
      for (std::size_t i = 0; i < std::min(theirs, plan_->outbox.size()); ++i)
        look(i, exchange_->theirs.messages[i], plan_->outbox[i]);
    }
    checks.push_back(std::move(result));
  }
  return checks;
}

}  // namespace rdmawire::replay::reactive
