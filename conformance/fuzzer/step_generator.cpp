#include "conformance/fuzzer/step_generator.hpp"

#include <algorithm>

#include "conformance/device/roce/cm_messages.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/infiniband.hpp"

namespace rdmawire::fuzzer {

using device::QpState;
using device::QpType;
using device::QueuePair;
using device::WorkOpcode;
namespace access = device::access;

namespace {

constexpr std::int64_t mtu = 256, roce_walk_rights = access::remote_write | access::remote_read |
                                                     access::remote_atomic | access::flush_global |
                                                     access::flush_persistent;
constexpr std::size_t max_history = 24;
constexpr std::int64_t one = 1;

std::int64_t code(Transport transport, Operation operation, Position position = Position::only, bool immediate = false,
                  bool invalidate = false) {
  const Opcode* found = find_opcode(transport, operation, position, immediate, invalidate);
  return found ? found->value : 0xff;
}

bool answers_a_read(const QueuePair& qp) {
  return std::ranges::any_of(
      qp.responder.answers, [](const device::Response& answer) { return answer.kind == device::Response::Kind::read; });
}

}  // namespace

std::int64_t key_of(Key key) { return static_cast<std::int64_t>(key); }

std::int64_t bytes_of(std::int64_t key) {
  switch (static_cast<Key>(key)) {
    case Key::read_only: return layout::read_only.bytes;
    case Key::window:
    case Key::window_elsewhere:
    case Key::window_1: return layout::window_bytes;
    default: return layout::page;
  }
}

std::uint64_t boundary(Rng& chance, unsigned bits, std::uint64_t was) {
  const std::uint64_t all = bits >= 64 ? ~0ULL : (1ULL << bits) - 1;
  switch (chance.below(10)) {
    case 0: return 0;
    case 1: return all;
    case 2: return 1;
    case 3: return (was + 1) & all;
    case 4: return (was - 1) & all;
    case 5: return 1ULL << (bits - 1);
    case 6: return (1ULL << (bits - 1)) - 1;
    case 7: return (was ^ 1ULL << chance.below(bits)) & all;
    case 8: return (1ULL << chance.below(bits)) & all;
    default: return chance.any() & all;
  }
}

Mutation change_of_field(Rng& chance, Bytes frame) {
  HeaderStack stack;
  decode(stack, frame, LinkType::ethernet, static_cast<std::uint32_t>(frame.size()));
  const auto layers = stack.layers();
  if (layers.empty()) return {};
  // Prefer transport headers. A device drops a packet with an invalid lower header before it reads the transport
  // headers.
  const std::size_t from = stack.transport != HeaderStack::none && !chance.one_in(5)
                               ? std::min<std::size_t>(stack.transport, layers.size() - 1)
                               : 0;
  return change_of_field(chance, frame, layers.subspan(from));
}

Mutation change_of_field(Rng& chance, Bytes frame, std::span<const Layer> layers) {
  Mutation mutation;
  const Layer& layer = layers[chance.below(layers.size())];
  const std::uint8_t* at = frame.data() + layer.offset;
  for (int tries = 0; tries < 8; ++tries) {
    const Field& field = chance.of(layer.header->fields);
    if (!field.is_number() || !field.present_in(at)) continue;
    mutation.header = layer.header;
    mutation.field = &field;
    const std::uint64_t was = field.load(at);
    std::uint64_t value = boundary(chance, field.width, was);
    // If the field has named values, use a named or an unnamed one.
    if (field.names && chance.one_in(2)) value = chance.of(field.names->entries).value;
    for (int attempt = 0; field.names && attempt < 4 && field.names->find(value) && chance.one_in(2); ++attempt)
      value = boundary(chance, field.width, was);
    if (field.is_reserved() && value == was) value = was ^ 1;
    // Change fields of at least 24 bits by a difference, because their values, such as PSNs and keys, depend on the
    // device.
    mutation.kind = field.width >= 24 && !field.names ? Mutation::Kind::add : Mutation::Kind::set;
    mutation.value = static_cast<std::int64_t>(mutation.kind == Mutation::Kind::add ? value - was : value);
    return mutation;
  }
  mutation.kind = Mutation::Kind::bad_icrc;
  return mutation;
}

Bases bases_of(const QueuePair* qp) {
  Bases bases;
  if (!qp) return bases;
  const std::uint8_t gid = qp->attributes.path.sgid_index;
  bases.ipv6 = qp->is_connected() && gid == 5;
  bases.roce_v1 = qp->is_connected() && gid == 2;
  bases.request =
      qp->options.type == QpType::uc ? qp->responder.uc.window.expected : qp->responder.state.window.expected;
  bases.answer = qp->requester.window.oldest;
  return bases;
}

void StepGenerator::add_to_history(const Step& step, const Bases& bases) {
  if (step.kind != StepKind::request && step.kind != StepKind::answer) return;
  if (history_.size() == max_history) history_.pop_front();
  history_.push_back({step, (step.kind == StepKind::answer ? bases.answer : bases.request) + step.psn});
  history_.back().step.mutations.clear();
}

Step StepGenerator::connect(std::int64_t at) {
  Step step{.kind = StepKind::connect, .at = at};
  step.service = static_cast<std::int64_t>(QpType::rc);
  if (chance_.percent(30)) {
    constexpr std::array others{QpType::uc, QpType::uc,         QpType::ud,
                                QpType::ud, QpType::xrc_target, QpType::xrc_initiator};
    step.service = static_cast<std::int64_t>(chance_.of(std::span<const QpType>(others).first(options_.xrc ? 6 : 4)));
  }
  step.state = static_cast<std::int64_t>(QpState::rts);
  if (options_.verbs && chance_.percent(12))
    step.state = static_cast<std::int64_t>(
        chance_.of(std::array{QpState::reset, QpState::init, QpState::rtr, QpState::rtr, QpState::sqd, QpState::err}));
  step.rights = roce_walk_rights;
  if (chance_.percent(15))
    step.rights =
        chance_.of(std::array<std::int64_t, 5>{0, access::remote_write, access::remote_read,
                                               access::remote_write | access::remote_read, access::remote_atomic});
  step.depth = chance_.percent(85) ? 4 : chance_.of(std::array<std::int64_t, 3>{0, 1, 2});
  step.count = chance_.percent(75) ? 4 : static_cast<std::int64_t>(chance_.below(3));
  step.length = chance_.percent(75) ? 1024 : chance_.of(std::array<std::int64_t, 4>{0, 16, 44, 300});
  if (step.service == static_cast<std::int64_t>(QpType::ud)) {
    if (options_.xrc && chance_.one_in(4)) step.service = gsi_service;
    if (chance_.one_in(3)) step.length = 5000;
  }
  step.psn = chance_.percent(70) ? 1000 : chance_.of(std::array<std::int64_t, 4>{0xffffff, 0xfffffe, 0, 0x7fffff});
  step.own_psn = chance_.percent(70) ? 2000 : chance_.of(std::array<std::int64_t, 3>{0xffffff, 0xfffffe, 0x800000});
  step.timeout = options_.wait && chance_.percent(30) ? 4 : 0;
  step.retries = chance_.of(std::array<std::int64_t, 3>{1, 2, 7});
  if (options_.verbs && chance_.percent(8)) step.queues |= 1;
  if (options_.verbs && chance_.percent(8)) step.queues |= 2;
  if (options_.verbs && chance_.percent(15)) step.queues |= 4;
  if (options_.other_ways && chance_.percent(10)) step.number = 1 + static_cast<std::int64_t>(chance_.below(2));
  return step;
}

/// Return the key that a step can invalidate: that of a bound window if fast registration is not available.
std::int64_t StepGenerator::key_to_invalidate(std::int64_t at) const {
  const bool window = !options_.verbs && options_.windows && bound_[static_cast<std::size_t>(at)];
  return window ? key_of(Key::window) + at : key_of(Key::fast);
}

Step StepGenerator::first_request(const QueuePair& qp, std::int64_t at) {
  Step step{.kind = StepKind::request, .at = at};
  const Transport transport = qp.transport();
  step.flags = chance_.percent(75) ? step_flags::ack_request : 0;
  if (chance_.one_in(8)) step.flags |= step_flags::solicited;
  step.payload = static_cast<std::int64_t>(chance_.percent(50) ? 8 : chance_.below(mtu + 1));
  step.immediate = static_cast<std::int64_t>(chance_.any() & 0xffff);
  if (chance_.one_in(6)) step.nanoseconds = 1;  // no pause before the next step
  if (transport == Transport::ud) {
    step.opcode = code(transport, Operation::send, Position::only, chance_.one_in(3));
    return step;
  }
  const bool reliable = qp.is_reliable();
  const auto memory = [&](std::int64_t bytes) {
    step.length = bytes;
    const std::int64_t bytes_of_key = std::max<std::int64_t>(bytes_of(step.key) - bytes, 0);
    step.offset =
        static_cast<std::int64_t>(chance_.below(static_cast<std::uint64_t>(bytes_of_key) + 1)) & ~std::int64_t{7};
    if (chance_.one_in(6)) step.offset = bytes_of_key;
  };
  switch (chance_.below(reliable ? 20 : 8)) {
    case 0:
    case 1: step.opcode = code(transport, Operation::send); break;
    case 2: step.opcode = code(transport, Operation::send, Position::only, true); break;
    case 3:
      step.opcode = code(transport, Operation::send, Position::first);
      step.payload = mtu;
      break;
    case 4:
    case 5:
      step.opcode = code(transport, Operation::rdma_write);
      if (chance_.one_in(3)) step.key = key_of(Key::write_only);
      memory(step.payload);
      break;
    case 6:
      step.opcode = code(transport, Operation::rdma_write, Position::only, true);
      memory(step.payload);
      break;
    case 7:
      step.opcode = code(transport, Operation::rdma_write, Position::first);
      memory(mtu + 1 + static_cast<std::int64_t>(chance_.below(600)));
      step.payload = mtu;
      break;
    case 8:
    case 9:
    case 10:
      step.opcode = code(transport, Operation::rdma_read_request);
      if (chance_.one_in(3))
        step.key = key_of(
            chance_.of(std::array{Key::read_only, Key::read_only, Key::window, Key::window_elsewhere, Key::window_1}));
      memory(static_cast<std::int64_t>(chance_.one_in(3) ? 8 : chance_.below(700)));
      if (chance_.one_in(6)) {
        step.key = key_of(Key::everything);
        memory(2560);
        step.nanoseconds = chance_.one_in(3) ? 0 : 1;
      }
      step.payload = 0;
      break;
    case 11:
    case 12:
      step.opcode = code(transport, Operation::compare_swap);
      memory(8);
      step.offset &= ~std::int64_t{7};
      step.payload = 0;
      step.value = static_cast<std::int64_t>(chance_.any());
      step.compare = static_cast<std::int64_t>(chance_.any());
      break;
    case 13:
    case 14:
      step.opcode = code(transport, Operation::fetch_add);
      memory(8);
      step.offset &= ~std::int64_t{7};
      step.payload = 0;
      step.value = static_cast<std::int64_t>(chance_.below(1000)) + 1;
      break;
    case 15:
    case 16:
      step.opcode = code(transport, Operation::flush);
      memory(8);
      step.payload = 0;
      step.value = 1 + static_cast<std::int64_t>(chance_.below(3));
      step.compare = static_cast<std::int64_t>(chance_.below(2));
      break;
    case 17:
      step.opcode = code(transport, Operation::atomic_write);
      memory(8);
      step.offset &= ~std::int64_t{7};
      step.payload = 8;
      break;
    case 18:
      step.opcode = code(transport, Operation::send, Position::only, false, true);
      step.key = key_to_invalidate(at);
      break;
    default:
      step.opcode = code(transport, Operation::rdma_write);
      step.key = key_of(Key::fast);
      memory(step.payload);
      break;
  }
  return step;
}

Step StepGenerator::request(const QueuePair& qp, std::int64_t at) {
  const bool uc = qp.options.type == QpType::uc;
  const machines::MessageSequence sequence = uc ? qp.responder.uc.sequence : qp.responder.state.sequence;
  if (!sequence.inside || qp.options.type == QpType::ud) return first_request(qp, at);
  Step step{.kind = StepKind::request, .at = at};
  const Transport transport = qp.transport();
  step.flags = chance_.percent(60) ? step_flags::ack_request : 0;
  step.immediate = static_cast<std::int64_t>(chance_.any() & 0xffff);
  const std::int64_t done = uc ? qp.responder.uc.done : qp.responder.state.done;
  if (sequence.operation == Operation::rdma_write) {
    const std::int64_t left = (uc ? qp.responder.uc.length : qp.responder.state.length) - done;
    step.payload = std::clamp<std::int64_t>(left, 1, mtu);
    step.opcode = left > mtu ? code(transport, Operation::rdma_write, Position::middle)
                             : code(transport, Operation::rdma_write, Position::last, chance_.one_in(4));
    return step;
  }
  const bool ends = done >= 512 || chance_.percent(60);
  step.payload = ends ? 1 + static_cast<std::int64_t>(chance_.below(mtu)) : mtu;
  const bool invalidates = ends && !uc && chance_.one_in(8);
  step.opcode = code(transport, Operation::send, ends ? Position::last : Position::middle,
                     ends && !invalidates && chance_.one_in(4), invalidates);
  if (invalidates) step.key = key_to_invalidate(at);
  return step;
}

Step StepGenerator::answer(const QueuePair& qp, std::int64_t at) {
  Step step{.kind = StepKind::answer, .at = at};
  const Transport transport = qp.transport();
  step.opcode = code(transport, Operation::acknowledge);
  step.syndrome = 0x1f;
  step.value = static_cast<std::int64_t>(chance_.any());
  const Psn oldest = qp.requester.window.oldest;
  for (const device::SendWork& work : qp.requester.queue) {
    if (!work.started || work.done || work.psns == 0) continue;
    const WorkOpcode operation = work.request.opcode;
    step.psn = work.first + (work.psns - 1) - oldest;
    step.msn = static_cast<std::int64_t>(qp.requester.messages);
    if (operation == WorkOpcode::read) {
      const std::int64_t index = work.answered;
      if (index >= static_cast<std::int64_t>(work.psns)) continue;
      const bool last = index + 1 == static_cast<std::int64_t>(work.psns);
      step.psn = work.first + index - oldest;
      step.payload = last ? static_cast<std::int64_t>(work.length) - index * mtu : mtu;
      const bool first = index == 0 || index == static_cast<std::int64_t>(work.asked_from);
      step.opcode = code(transport, Operation::rdma_read_response,
                         first && last ? Position::only
                         : first       ? Position::first
                         : last        ? Position::last
                                       : Position::middle);
    } else if (operation == WorkOpcode::compare_swap || operation == WorkOpcode::fetch_add) {
      step.opcode = code(transport, Operation::atomic_acknowledge);
    } else if (operation == WorkOpcode::flush || operation == WorkOpcode::atomic_write) {
      step.opcode = code(transport, Operation::rdma_read_response);
    } else if (chance_.one_in(5)) {
      step.syndrome = 0x20 + static_cast<std::int64_t>(1 + chance_.below(2));  // RNR
      step.psn = work.first - oldest;
    } else if (chance_.one_in(6)) {
      step.syndrome = 0x60;
      step.psn = static_cast<std::int64_t>(chance_.below(work.psns)) + (work.first - oldest);
    }
    return step;
  }
  return step;
}

Step StepGenerator::post(const QueuePair& qp, std::int64_t at) {
  Step step{.kind = StepKind::post, .at = at};
  step.opcode = static_cast<std::int64_t>(
      chance_.of(std::array{WorkOpcode::send, WorkOpcode::send, WorkOpcode::send_imm, WorkOpcode::write,
                            WorkOpcode::write_imm, WorkOpcode::read, WorkOpcode::read, WorkOpcode::read,
                            WorkOpcode::compare_swap, WorkOpcode::fetch_add, WorkOpcode::flush}));
  step.length = static_cast<std::int64_t>(chance_.percent(40) ? 8 : chance_.below(1100));
  step.offset = static_cast<std::int64_t>(chance_.below(128)) * 8;
  if (chance_.one_in(10)) step.flags |= 2;
  if (chance_.one_in(12)) step.flags |= 4;
  if (chance_.one_in(12)) step.flags |= 8;
  step.immediate = 0x99;
  if (options_.verbs) return step;
  // Use only operations that the service and the device support. No fence: a device may wait longer than required.
  step.flags &= ~std::int64_t{2};
  const auto operation = static_cast<WorkOpcode>(step.opcode);
  const bool sends = operation == WorkOpcode::send || operation == WorkOpcode::send_imm;
  const bool writes = operation == WorkOpcode::write || operation == WorkOpcode::write_imm;
  const bool ud = qp.options.type == QpType::ud;
  if (operation == WorkOpcode::flush || (!qp.is_reliable() && !sends && (ud || !writes)))
    step.opcode = static_cast<std::int64_t>(WorkOpcode::send);
  if (ud) step.length = std::min<std::int64_t>(step.length, 1000);
  return step;
}

/// Return a valid verbs call.
Step StepGenerator::verbs(std::int64_t at) {
  Step step{.kind = StepKind::notify, .at = at};
  switch (chance_.below(10)) {
    case 0: step.flags = static_cast<std::int64_t>(chance_.below(2)); break;
    case 1:
    case 2:
    case 3:
      step.kind = StepKind::fast_register;
      step.length = layout::fast.bytes;
      step.rights = roce_walk_rights | access::local_write;
      step.immediate = static_cast<std::int64_t>(chance_.below(256));
      if (chance_.one_in(4)) step.flags |= 2;
      break;
    case 4:
    case 5:
      step.kind = StepKind::bind;
      step.number = static_cast<std::int64_t>(chance_.below(2));
      step.at = step.number;
      step.length = layout::window_bytes;
      step.rights = access::remote_read;
      step.immediate = static_cast<std::int64_t>(chance_.below(256));
      break;
    case 6:
      step.kind = StepKind::bind;
      step.number = 2;
      step.flags = 4;
      step.length = layout::window_bytes;
      step.rights = access::remote_read;
      break;
    case 7:
      step.kind = StepKind::invalidate;
      step.key = key_of(Key::fast);
      if (chance_.one_in(4)) step.flags |= 2;
      break;
    case 8: step.kind = StepKind::attach; break;
    default: step.kind = StepKind::detach; break;
  }
  return step;
}

/// Return a step that binds the queue pair's type 2 window, or invalidates it if it is bound.
std::optional<Step> StepGenerator::window(const DeviceFixture& fixture, std::int64_t at) {
  const QueuePair* qp = fixture.queue_pair(at);
  if (!qp || qp->options.type != QpType::rc || qp->state != QpState::rts) return std::nullopt;
  Step step{.kind = StepKind::bind, .at = at, .length = layout::window_bytes};
  step.number = chance_.one_in(3) ? 2 : at;
  step.immediate = static_cast<std::int64_t>(chance_.below(256));
  step.rights = chance_.of(std::array<std::int64_t, 3>{access::remote_read, access::remote_write,
                                                       access::remote_read | access::remote_write});
  if (step.number == 2) {
    step.flags = 4;
  } else if (fixture.window_is_bound(step.number)) {
    step = {.kind = StepKind::invalidate, .at = at, .key = key_of(Key::window) + step.number};
  }
  return step;
}

/// Return an invalid or rare verbs call.
Step StepGenerator::misuse(std::int64_t at) {
  Step step{.kind = StepKind::modify, .at = at, .mutated = true};
  switch (chance_.below(12)) {
    case 0:
    case 1:
    case 2:
    case 3: {
      step.state = static_cast<std::int64_t>(chance_.below(7));
      // Prefer the masks of the transitions RESET to INIT, INIT to RTR and RTR to RTS, possibly with changes.
      step.mask = chance_.of(std::array<std::int64_t, 6>{0x1, 0xf, 0x17, 0x19e1, 0x2601, 0x4001});
      if (chance_.one_in(3)) step.mask ^= one << chance_.below(16);
      if (chance_.one_in(4)) step.mask = static_cast<std::int64_t>(chance_.any() & 0xffff);
      step.rights = roce_walk_rights;
      step.psn = 1000;
      step.own_psn = 2000;
      step.depth = static_cast<std::int64_t>(chance_.below(4));
      step.timeout = 0;
      step.retries = 2;
      break;
    }
    case 4:
    case 5:
    case 6: {
      step.kind = StepKind::bind;
      step.number = static_cast<std::int64_t>(chance_.below(3));
      step.key = static_cast<std::int64_t>(chance_.below(6));
      step.length = chance_.of(std::array<std::int64_t, 5>{512, 4096, 4097, 9000, -1});
      step.offset = chance_.of(std::array<std::int64_t, 4>{0, 8, -8, 4090});
      if (chance_.one_in(4)) {  // a range that wraps and ends inside the region
        step.offset = 64;
        step.length = -static_cast<std::int64_t>(32 + chance_.below(32));
      }
      step.rights = chance_.of(std::array<std::int64_t, 4>{access::remote_read, access::remote_write,
                                                           access::remote_atomic, roce_walk_rights});
      step.immediate = 0x42;
      step.flags = chance_.one_in(2) ? 4 : 0;
      break;
    }
    case 7:
      step.kind = StepKind::invalidate;
      step.key = static_cast<std::int64_t>(chance_.below(keys));
      break;
    case 8:
      step.kind = StepKind::deregister;
      step.key = static_cast<std::int64_t>(chance_.below(6));
      break;
    case 9: step.kind = StepKind::destroy; break;
    case 10:
      step.kind = StepKind::destroy_cq;
      step.number = static_cast<std::int64_t>(chance_.below(2));
      break;
    default:
      step.kind = StepKind::fast_register;
      step.length = chance_.of(std::array<std::int64_t, 3>{64, 4097, -1});
      step.rights = static_cast<std::int64_t>(chance_.any() & access::all);
      step.immediate = 7;
      break;
  }
  return step;
}

/// Return a valid CM message for the current connection state.
Step StepGenerator::message(std::int64_t attribute, const DeviceFixture& fixture, std::int64_t at) {
  using namespace device::cm_attribute;
  Step step{.kind = StepKind::cm, .at = at, .opcode = attribute};
  switch (attribute) {
    case req:
    case rep:
      step.own_psn = chance_.percent(70) ? 2000 : 0xffffff;
      step.depth = chance_.percent(80) ? 4 : static_cast<std::int64_t>(chance_.below(3));
      step.retries = chance_.of(std::array<std::int64_t, 3>{1, 2, 7});
      step.timeout = 6;
      break;
    case mra:
      step.value = fixture.connection(at) == machines::CmState::rep_sent ? 1 : 0;
      step.length = static_cast<std::int64_t>(chance_.below(18));
      break;
    case rej:
      step.value = fixture.connection(at) == machines::CmState::rep_sent ? 1 : 0;
      step.compare = chance_.of(std::array<std::int64_t, 4>{28, 28, 10, 4});
      break;
    case dreq:
    case lap:
      if (const QueuePair* qp = fixture.queue_pair(at)) step.immediate = qp->qpn;
      break;
    default: break;
  }
  return step;
}

/// Return a valid next CM action of the tester or of the device.
Step StepGenerator::connection(const DeviceFixture& fixture, std::int64_t at) {
  using machines::CmState;
  using namespace device::cm_attribute;
  const auto message_of = [&](std::int64_t attribute) { return message(attribute, fixture, at); };
  Step request_step{.kind = StepKind::cm_disconnect, .at = at};
  switch (fixture.connection(at)) {
    case CmState::req_sent:
    case CmState::rep_wait: return message_of(chance_.percent(65) ? rep : chance_.percent(60) ? mra : rej);
    case CmState::req_received:
    case CmState::mra_req_sent:
      if (chance_.one_in(8)) {
        Step repeated = message_of(req);
        repeated.number = 1;
        return repeated;
      }
      request_step.kind = chance_.one_in(8) ? StepKind::cm_reject : StepKind::cm_accept;
      if (request_step.kind == StepKind::cm_accept) {
        request_step.count = 4;
        request_step.length = 1024;
        request_step.retries = 2;
        request_step.number = chance_.one_in(4) ? 1 : 0;
      }
      return request_step;
    case CmState::rep_sent:
    case CmState::rtu_wait: return message_of(chance_.percent(75) ? rtu : chance_.percent(50) ? mra : rej);
    case CmState::established:
      return chance_.percent(45) ? message_of(dreq) : chance_.one_in(4) ? message_of(lap) : request_step;
    case CmState::dreq_sent: return message_of(chance_.percent(75) ? drep : dreq);
    case CmState::dreq_received: return chance_.percent(70) ? request_step : message_of(dreq);
    case CmState::timewait:
    case CmState::idle:
    case CmState::rep_received: break;
  }
  if (chance_.percent(70)) return message_of(req);
  request_step.kind = StepKind::cm_connect;
  request_step.retries = 2;
  return request_step;
}

/// Make a CM message invalid: unexpected in the state, from an older connection, or with a wrong field.
void StepGenerator::mutate_cm_message(Step& step, const DeviceFixture& fixture, const FrameMaker& maker) {
  const std::uint64_t how = chance_.below(10);
  if (how < 3) {
    const auto all = static_cast<std::uint64_t>(last_cm_message - first_cm_message + 1);
    step = message(first_cm_message + static_cast<std::int64_t>(chance_.below(all)), fixture, step.at);
    step.number = static_cast<std::int64_t>(chance_.below(2));
  } else if (how == 3) {
    change_frame(step);
  } else if (how == 4) {
    step.flags ^= chance_.of(
        std::array{step_flags::other_qkey, step_flags::other_pkey, step_flags::second_pkey, step_flags::limited_pkey});
    if (options_.other_ways && chance_.one_in(3)) step.way = static_cast<std::int64_t>(chance_.below(ways));
  } else if (const auto frame = maker.plain(step, fixture.objects(), {}); !frame.empty()) {
    step.mutations.push_back(change_of_field(chance_, frame));
  }
  step.mutated = true;
}

Step StepGenerator::legal(DeviceFixture& fixture, std::int64_t at) {
  const QueuePair* qp = fixture.queue_pair(at);
  const bool dead = !qp || qp->state == QpState::err || qp->state == QpState::reset || qp->state == QpState::sqe;
  if (by_cm_ && chance_.one_in(fixture.connection(at) == machines::CmState::established && !dead ? 12 : 2))
    return connection(fixture, at);
  const auto reconnect = [&] { return by_cm_ && !options_.mixed ? connection(fixture, at) : connect(at); };
  if (dead && !chance_.one_in(4)) return reconnect();
  if (!qp) return reconnect();
  if (chance_.one_in(40)) return reconnect();
  const bool waits = qp->is_reliable() && qp->requester.window.outstanding() > 0;
  if (waits && chance_.percent(55)) return answer(*qp, at);
  // Verbs reject requests for a full queue.
  if (chance_.one_in(9) && (options_.verbs || qp->requester.queue.size() < 12)) return post(*qp, at);
  if (qp->receives.empty() && chance_.one_in(3)) {
    Step step{.kind = StepKind::receive, .at = at};
    step.length = chance_.one_in(4) ? 16 : 1024;
    return step;
  }
  if (options_.wait && chance_.one_in(30)) {
    Step step{.kind = StepKind::wait, .at = at};
    step.nanoseconds = chance_.of(std::array<std::int64_t, 4>{100'000, 100'000, 2'000'000, 600'000'000});
    return step;
  }
  if (options_.verbs && chance_.one_in(14)) return verbs(at);
  if (!options_.verbs && options_.windows && chance_.one_in(14))
    if (auto step = window(fixture, at)) return *step;
  return request(*qp, at);
}

/// Replace the step by an earlier packet with its PSN, or by a part of it.
bool StepGenerator::repeat_packet(Step& step, const Bases& bases) {
  if (history_.empty()) return false;
  const SentStep& old = chance_.one_in(2) ? history_.back() : chance_.of(history_);
  if (old.step.at != step.at) return false;
  step = old.step;
  step.psn = old.psn - (step.kind == StepKind::answer ? bases.answer : bases.request);
  const Opcode& op = opcode(static_cast<std::uint8_t>(step.opcode));
  switch (chance_.below(6)) {
    case 0: step.value ^= 0x55; break;
    case 1: step.offset += chance_.one_in(2) ? 64 : 4096; break;
    case 2:  // the rest of a READ
      if (op.known && op.operation == Operation::rdma_read_request && step.length > mtu) {
        const auto skipped = static_cast<std::int64_t>(1 + chance_.below(2));
        step.psn += skipped;
        step.offset += skipped * mtu;
        step.length = std::max<std::int64_t>(step.length - skipped * mtu, 8);
      }
      break;
    case 3: step.key = static_cast<std::int64_t>(chance_.below(keys)); break;
    default: break;
  }
  return true;
}

void StepGenerator::mutate_once(Step& step, const QueuePair* qp) {
  const std::int64_t bytes_of_key = bytes_of(step.key);
  switch (chance_.below(12)) {
    case 0:
    case 1:
      step.psn += chance_.of(std::array<std::int64_t, 14>{-1, -2, -3, -8, -40, 1, 1, 2, 5, 1 << 22, (1 << 23) - 1,
                                                          1 << 23, -(1 << 23) + 5, -(1 << 22) - 5});
      break;
    case 2:
      step.key = chance_.one_in(3) ? key_of(chance_.of(std::array{Key::window, Key::window_elsewhere, Key::window_1}))
                                   : static_cast<std::int64_t>(chance_.below(keys));
      if (step.offset + step.length > bytes_of(step.key) && chance_.one_in(2)) step.offset = 0;
      if (chance_.one_in(4)) step.length = step.payload = 0;
      break;
    case 3:
    case 4: {
      const std::int64_t bytes = step.length;
      step.offset =
          chance_.of(std::array<std::int64_t, 10>{bytes_of_key - bytes, bytes_of_key - bytes + 1, bytes_of_key - 1,
                                                  bytes_of_key, -1, -8, 4, step.offset + 4, step.offset + 1, -bytes});
      if (chance_.one_in(5))  // the end wraps around 2^64
        step.offset =
            -static_cast<std::int64_t>(0x7f0000000000) - 0x10000 - static_cast<std::int64_t>(chance_.below(64));
      break;
    }
    case 5:
      step.length = chance_.of(std::array<std::int64_t, 11>{0, 1, step.length + 1, step.length - 1, step.length + 12,
                                                            mtu, mtu + 1, 4096, 0x80000000, 0x80000001, 0xffffffff});
      break;
    case 6:
    case 7:
      step.payload = std::clamp<std::int64_t>(
          chance_.of(std::array<std::int64_t, 10>{0, 1, 3, step.payload - 1, step.payload + 1, mtu - 1, mtu, mtu + 1,
                                                  300, step.payload + 4}),
          0, 4300);
      if (step.kind == StepKind::request && chance_.one_in(2) && qp && step.length > 0 && step.length < 5000)
        step.length = step.payload;
      if (chance_.one_in(40)) step.payload = 4200;
      break;
    case 8:
    case 9: {
      const auto transport = static_cast<std::int64_t>(step.opcode & 0xe0);
      step.opcode = chance_.one_in(5) ? static_cast<std::int64_t>(chance_.below(256))
                                      : transport | static_cast<std::int64_t>(chance_.below(32));
      // Prefer opcodes of responses.
      for (int tries = 0; step.kind == StepKind::answer && tries < 8; ++tries) {
        const Opcode& row = opcode(static_cast<std::uint8_t>(step.opcode));
        if (row.known && row.direction == Direction::response) break;
        step.opcode = transport | static_cast<std::int64_t>(chance_.below(32));
      }
      const Opcode& op = opcode(static_cast<std::uint8_t>(step.opcode));
      if (op.known && !op.payload) step.payload = 0;
      // Make the packet valid for another state of the queue pair.
      if (op.known && chance_.one_in(2) && op.payload) {
        if (op.position == Position::first || op.position == Position::middle) step.payload = mtu;
        if (op.operation == Operation::rdma_write && op.begins_message())
          step.length = op.position == Position::first ? 600 : step.payload;
      }
      break;
    }
    case 10:
      step.flags ^= chance_.of(std::array<std::int64_t, 11>{
          step_flags::ack_request, step_flags::solicited, step_flags::not_migrated, step_flags::other_pkey,
          step_flags::other_qkey, step_flags::other_qkey, step_flags::congested, step_flags::no_such_qp,
          step_flags::qp_zero, step_flags::limited_pkey, step_flags::second_pkey});
      if (chance_.one_in(20)) step.flags ^= step_flags::multicast_qp;
      break;
    default:
      if (step.kind == StepKind::answer) {
        step.syndrome = static_cast<std::int64_t>(boundary(chance_, 8, static_cast<std::uint64_t>(step.syndrome)));
        if (chance_.one_in(2)) {  // reject with any NAK code
          step.opcode = code(qp ? qp->transport() : Transport::rc, Operation::acknowledge);
          step.payload = 0;
          step.syndrome = 0x60 + static_cast<std::int64_t>(chance_.below(8));
        }
      } else if (options_.other_ways) {
        step.way = static_cast<std::int64_t>(chance_.below(ways));
      } else {
        step.key = static_cast<std::int64_t>(chance_.below(keys));
      }
      break;
  }
  if (step.kind == StepKind::request && step.number == 0 && chance_.one_in(12))
    step.number = static_cast<std::int64_t>(chance_.below(3));
}

void StepGenerator::change_frame(Step& step) {
  using Kind = Mutation::Kind;
  Mutation mutation;
  mutation.kind = chance_.of(std::array{Kind::bad_icrc, Kind::truncate, Kind::extend, Kind::cut, Kind::duplicate,
                                        Kind::drop, Kind::hold, Kind::splice, Kind::bad_sum});
  switch (mutation.kind) {
    case Kind::bad_icrc: mutation.value = static_cast<std::int64_t>(one << chance_.below(32)); break;
    case Kind::truncate:
    case Kind::extend:
    case Kind::cut: mutation.value = 1 + static_cast<std::int64_t>(chance_.below(chance_.one_in(2) ? 4 : 40)); break;
    case Kind::splice: mutation.value = 1 + static_cast<std::int64_t>(chance_.below(64)); break;
    default: break;
  }
  step.mutations.push_back(mutation);
}

void StepGenerator::mutate(Step& step, const QueuePair* qp) {
  step.mutated = true;
  mutate_once(step, qp);
  if (chance_.one_in(5)) mutate_once(step, qp);
}

/// Return a step that invalidates the key of a READ in progress.
Step StepGenerator::revoke(std::int64_t at) {
  Step step{.kind = StepKind::invalidate, .at = at, .mutated = true};
  const auto read = std::ranges::find_if(history_.rbegin(), history_.rend(), [&](const SentStep& sent) {
    const Opcode& op = opcode(static_cast<std::uint8_t>(sent.step.opcode));
    return sent.step.at == at && op.known && op.operation == Operation::rdma_read_request;
  });
  step.key = read == history_.rend() ? key_of(Key::everything) : read->step.key;
  if (step.key < key_of(Key::window)) step.kind = StepKind::deregister;
  return step;
}

/// Return a random step. Operations that the target does not support are replaced.
Step StepGenerator::next(DeviceFixture& fixture, const FrameMaker& maker) {
  Step step = anything(fixture, maker);
  const Opcode& op = opcode(static_cast<std::uint8_t>(step.opcode));
  const bool extended = op.known && (op.operation == Operation::flush || op.operation == Operation::atomic_write);
  if (step.kind == StepKind::request && extended && !options_.extensions) {
    step.opcode = code(op.transport, Operation::send);
    step.payload = std::min(step.payload, mtu);
  }
  // Similar numbers may belong to other queue pairs of a physical device.
  const auto renumbers = [](const Mutation& mutation) {
    return mutation.header == &info<Bth> && mutation.field && mutation.field->name == "dest_qp";
  };
  if (!options_.verbs && std::erase_if(step.mutations, renumbers) > 0) step.flags |= step_flags::no_such_qp;
  if (!options_.wait && step.kind != StepKind::wait) step.nanoseconds = 0;
  return step;
}

Step StepGenerator::anything(DeviceFixture& fixture, const FrameMaker& maker) {
  bound_ = {fixture.window_is_bound(0), fixture.window_is_bound(1)};
  const auto at = static_cast<std::int64_t>(chance_.one_in(6) ? 1 : 0);
  const QueuePair* qp = fixture.queue_pair(at);
  if (options_.verbs && qp && answers_a_read(*qp) && chance_.one_in(6)) return revoke(at);
  if (options_.verbs && qp && chance_.one_in(20)) return misuse(at);
  Step step = legal(fixture, at);
  if (step.kind == StepKind::connect || chance_.percent(38)) return step;
  if (step.kind == StepKind::cm) {
    mutate_cm_message(step, fixture, maker);
    return step;
  }
  if (step.kind != StepKind::request && step.kind != StepKind::answer) {
    // A verbs call in a state that does not allow it counts as a mutation.
    step.mutated = qp && qp->state != QpState::rts && options_.verbs;
    return step;
  }
  const Bases bases = bases_of(qp);
  switch (chance_.below(10)) {
    case 0:
    case 1: step.mutated = repeat_packet(step, bases); break;
    case 2:
    case 3:
    case 4:
    case 5:
    case 6: mutate(step, qp); break;
    case 7:
    case 8: {
      const auto frame = maker.plain(step, fixture.objects(), bases);
      if (!frame.empty()) step.mutations.push_back(change_of_field(chance_, frame));
      if (!step.mutations.empty() && chance_.one_in(12)) step.mutations.push_back({.kind = Mutation::Kind::stale_icrc});
      step.mutated = !step.mutations.empty();
      break;
    }
    default:
      change_frame(step);
      step.mutated = true;
      break;
  }
  return step;
}

}  // namespace rdmawire::fuzzer
