#include "conformance/fuzzer/iwarp_step_generator.hpp"

#include <algorithm>

#include "conformance/fuzzer/step_generator.hpp"
#include "dissectors/protocol/rdmap.hpp"

namespace rdmawire::fuzzer {

using device::WorkOpcode;
using machines::MpaPhase;
using machines::StreamState;
namespace access = device::access;

namespace {

constexpr std::int64_t iwarp_walk_rights = access::remote_write | access::remote_read | access::remote_atomic;
constexpr std::int64_t long_message = 3000;  ///< bytes, more than one FPDU

std::int64_t code(RdmapOperation operation) { return static_cast<std::int64_t>(operation); }
RdmapOperation operation_of(const Step& step) { return static_cast<RdmapOperation>(step.opcode & 15); }
bool is_send(RdmapOperation operation) {
  return operation >= RdmapOperation::send && operation <= RdmapOperation::send_se_invalidate;
}

}  // namespace

void IwarpStepGenerator::add_to_history(const Step& step) {
  const auto at = static_cast<std::size_t>(step.at);
  if (step.kind == StepKind::connect) open_[at].reset();
  if (step.kind != StepKind::segment) return;
  if (is_send(operation_of(step))) {
    open_[at].reset();
    if ((step.flags & segment_flags::more) != 0) open_[at] = step;
  }
  if (history_.size() == max_history) history_.pop_front();
  history_.push_back(step);
  history_.back().mutations.clear();
}

/// Set the members of a step that describe the tester's MPA frame.
void IwarpStepGenerator::set_up(Step& step, bool device_initiates, bool peer_to_peer) {
  using namespace setup_flags;
  step.flags &= silent;
  const bool plain_reply =
      device_initiates && (step.service & (stream_settings::revision_1 | stream_settings::not_enhanced)) != 0;
  const bool enhances = device_initiates ? !plain_reply : chance_.one_in(2);
  if (chance_.one_in(5)) step.flags |= no_crc;
  if (!options_.settings && chance_.one_in(5)) step.flags |= markers;
  // Avoid long private data, which crashes kernels with siw. Only mutations test it.
  step.payload = chance_.percent(70) ? 0 : chance_.of(std::array<std::int64_t, 4>{1, 4, 17, 200});
  if (!options_.settings && chance_.one_in(12))
    step.payload = chance_.of(std::array<std::int64_t, 4>{255, 256, 400, 508});
  if (!enhances) return;
  step.flags |= enhanced;
  step.ird = chance_.of(std::array<std::int64_t, 4>{4, 4, 1, 2});
  step.ord = chance_.of(std::array<std::int64_t, 4>{4, 4, 1, 8});
  if (device_initiates ? peer_to_peer : (!options_.settings && chance_.one_in(3))) {
    step.flags |= setup_flags::peer_to_peer;
    step.flags |= chance_.of(std::array<std::int64_t, 5>{rtr_send | rtr_write | rtr_read, rtr_send, rtr_write, rtr_read,
                                                         rtr_send | rtr_read});
  }
}

Step IwarpStepGenerator::connect(std::int64_t at) {
  using namespace stream_settings;
  Step step{.kind = StepKind::connect, .at = at};
  step.depth = chance_.percent(80) ? 4 : chance_.of(std::array<std::int64_t, 3>{0, 1, 2});
  step.own_depth = chance_.percent(80) ? 4 : chance_.of(std::array<std::int64_t, 3>{0, 1, 2});
  step.count = chance_.percent(75) ? 4 : static_cast<std::int64_t>(chance_.below(3));
  step.length = chance_.percent(75) ? 1024 : chance_.of(std::array<std::int64_t, 4>{0, 16, 64, 300});
  step.number = chance_.one_in(3) ? 1 : 0;
  if (!options_.settings) {
    if (chance_.one_in(6)) step.service |= revision_1;
    if (chance_.one_in(6)) step.service |= markers;
    if (chance_.one_in(5)) step.service |= no_crc;
    if (step.number == 1 && chance_.one_in(3)) step.service |= peer_to_peer;
    if (step.number == 1 && chance_.one_in(6)) step.service |= not_enhanced;
    if (chance_.one_in(8)) step.service |= chance_.one_in(2) ? rtr_write_only : rtr_send_only;
    if (chance_.one_in(16)) step.service |= rdmac;
    if (chance_.one_in(16)) step.service |= no_extensions;
    if (chance_.one_in(10)) step.queues = 1;
    if (chance_.one_in(10)) step.state = 1 + static_cast<std::int64_t>(chance_.below(2));
    if (chance_.one_in(12)) step.flags |= setup_flags::silent;
  } else {
    step.service = *options_.settings;
  }
  set_up(step, step.number == 1, (step.service & peer_to_peer) != 0);
  return step;
}

/// Choose a location in the memory of the step's key.
void IwarpStepGenerator::place(Step& step, std::int64_t bytes) {
  const std::int64_t bytes_of_key = std::max<std::int64_t>(bytes_of(step.key) - bytes, 0);
  step.offset =
      static_cast<std::int64_t>(chance_.below(static_cast<std::uint64_t>(bytes_of_key) + 1)) & ~std::int64_t{7};
  if (chance_.one_in(6)) step.offset = bytes_of_key;
}

/// Return the next segment of an unfinished Send.
Step IwarpStepGenerator::more(std::int64_t at) {
  const Step& before = *open_[static_cast<std::size_t>(at)];
  Step step{.kind = StepKind::segment, .at = at, .opcode = before.opcode};
  step.key = before.key;
  step.payload = static_cast<std::int64_t>(chance_.below(200));
  if (chance_.percent(35)) step.flags = segment_flags::more;
  return step;
}

Step IwarpStepGenerator::segment(std::int64_t at) {
  if (open_[static_cast<std::size_t>(at)] && !chance_.one_in(4)) return more(at);
  Step step{.kind = StepKind::segment, .at = at};
  step.payload = static_cast<std::int64_t>(chance_.percent(50) ? 8 : chance_.below(300));
  if (chance_.one_in(15)) step.payload = 1200;
  if (chance_.one_in(12)) step.payload = 0;
  if (options_.timing && chance_.one_in(6)) step.nanoseconds = 1;
  const auto one_of = [&](auto... operations) { step.opcode = code(chance_.of(std::array{operations...})); };
  using enum RdmapOperation;
  switch (chance_.below(options_.extensions ? 20 : 14)) {
    case 0:
    case 1:
    case 2: one_of(send, send, send_se); break;
    case 3:
      one_of(send, send_se, send_invalidate);
      if (operation_of(step) == send_invalidate) step.key = key_of(Key::fast);
      step.flags |= segment_flags::more;
      break;
    case 4:
      one_of(send_invalidate, send_se_invalidate);
      step.key = key_of(Key::fast);
      if (!options_.verbs) step.opcode = code(send);
      break;
    case 5:
    case 6:
    case 7:
    case 8:
      step.opcode = code(rdma_write);
      step.key = key_of(chance_.of(std::array{Key::everything, Key::everything, Key::write_only, Key::fast}));
      if (!options_.verbs && step.key == key_of(Key::fast)) step.key = key_of(Key::write_only);
      place(step, step.payload);
      if (!options_.settings && chance_.one_in(5)) step.flags |= segment_flags::more;
      break;
    case 9:
    case 10:
    case 11:
    case 12:
    case 13:
      step.opcode = code(read_request);
      step.key = key_of(chance_.of(std::array{Key::everything, Key::read_only, Key::everything, Key::fast, Key::window,
                                              Key::window_elsewhere, Key::window_1}));
      if (!options_.verbs && step.key >= key_of(Key::fast)) step.key = key_of(Key::read_only);
      step.length = static_cast<std::int64_t>(chance_.one_in(3) ? 8 : chance_.below(400));
      if (chance_.one_in(8)) step.length = long_message;
      if (step.length == long_message && step.key != key_of(Key::fast)) step.key = key_of(Key::everything);
      place(step, step.length);
      step.payload = 0;
      if (options_.timing && chance_.one_in(3)) step.nanoseconds = 1;
      break;
    case 14:
    case 15:
      one_of(immediate_data, immediate_data_se);
      step.immediate = static_cast<std::int64_t>(chance_.any());
      step.payload = 0;
      break;
    default:
      step.opcode = code(atomic_request);
      step.number = chance_.one_in(2) ? 0 : 2;
      place(step, 8);
      step.offset &= ~std::int64_t{7};
      step.payload = 0;
      step.value = static_cast<std::int64_t>(chance_.any());
      step.mask = chance_.of(std::array<std::int64_t, 4>{0, -1, 0x00ff, static_cast<std::int64_t>(chance_.any())});
      step.compare = static_cast<std::int64_t>(chance_.any());
      step.compare_mask = chance_.of(std::array<std::int64_t, 4>{0, -1, 1, static_cast<std::int64_t>(chance_.any())});
      if (options_.timing && chance_.one_in(3)) step.nanoseconds = 1;
      break;
  }
  return step;
}

Step IwarpStepGenerator::answer(const StreamTester::Request& oldest, std::int64_t at) {
  Step step{.kind = StepKind::segment, .at = at};
  if (oldest.atomic) {
    step.opcode = code(RdmapOperation::atomic_response);
    step.value = static_cast<std::int64_t>(chance_.any());
    return step;
  }
  step.opcode = code(RdmapOperation::read_response);
  const std::int64_t left = std::int64_t{oldest.bytes} - oldest.received;
  step.payload = std::clamp<std::int64_t>(left, 0, 1200);
  if (left > 1 && chance_.one_in(3))
    step.payload =
        1 + static_cast<std::int64_t>(chance_.below(std::min<std::uint64_t>(static_cast<std::uint64_t>(left), 1200)));
  if (step.payload < left) step.flags |= segment_flags::more;
  return step;
}

Step IwarpStepGenerator::post(std::int64_t at) {
  Step step{.kind = StepKind::post, .at = at};
  using enum WorkOpcode;
  step.opcode = static_cast<std::int64_t>(options_.extensions
                                              ? chance_.of(std::array{send, send, send_inv, send_imm, write, write_imm,
                                                                      read, read, read, read, compare_swap, fetch_add})
                                              : chance_.of(std::array{send, send, write, read, read, read}));
  step.length = static_cast<std::int64_t>(chance_.percent(40) ? 8 : chance_.below(1100));
  if (chance_.one_in(10)) step.length = chance_.one_in(2) ? 0 : long_message;
  step.offset = static_cast<std::int64_t>(chance_.below(128)) * 8;
  if (chance_.one_in(10)) step.flags |= 2;
  if (chance_.one_in(12)) step.flags |= 4;
  if (chance_.one_in(8)) step.flags |= 1;
  step.immediate = 0x99;
  step.value = static_cast<std::int64_t>(chance_.any());
  step.compare_mask = -1;
  if (options_.timing && chance_.one_in(5)) step.nanoseconds = 1;
  return step;
}

/// Return a valid verbs call.
Step IwarpStepGenerator::verbs(std::int64_t at) {
  Step step{.kind = StepKind::notify, .at = at};
  switch (chance_.below(9)) {
    case 0: step.flags = static_cast<std::int64_t>(chance_.below(2)); break;
    case 1:
    case 2:
    case 3:
    case 4:
      step.kind = StepKind::fast_register;
      step.length = layout::fast.bytes;
      step.rights = iwarp_walk_rights | access::local_write;
      step.immediate = static_cast<std::int64_t>(chance_.below(256));
      break;
    case 5:
    case 6:
      step.kind = StepKind::bind;
      step.number = static_cast<std::int64_t>(chance_.below(3));
      if (step.number < 2) step.at = step.number;
      step.length = layout::window_bytes;
      step.rights = access::remote_read;
      step.immediate = static_cast<std::int64_t>(chance_.below(256));
      break;
    default:
      step.kind = StepKind::invalidate;
      step.key = key_of(Key::fast);
      if (chance_.one_in(4)) step.flags |= 2;
      break;
  }
  return step;
}

/// Return an invalid or rare verbs call.
Step IwarpStepGenerator::misuse(std::int64_t at) {
  Step step{.kind = StepKind::disconnect, .at = at, .mutated = true};
  switch (chance_.below(8)) {
    case 0: break;
    case 1: step.flags = 1; break;
    case 2:
      step.kind = StepKind::deregister;
      step.key = static_cast<std::int64_t>(chance_.below(6));
      break;
    case 3:
      step.kind = StepKind::invalidate;
      step.key = static_cast<std::int64_t>(chance_.below(keys));
      break;
    case 4:
      step.kind = StepKind::bind;
      step.number = static_cast<std::int64_t>(chance_.below(3));
      step.key = static_cast<std::int64_t>(chance_.below(6));
      step.length = chance_.of(std::array<std::int64_t, 4>{512, 4096, 4097, -1});
      step.offset = chance_.of(std::array<std::int64_t, 3>{0, 8, -8});
      step.rights =
          chance_.of(std::array<std::int64_t, 3>{access::remote_read, access::remote_write, iwarp_walk_rights});
      break;
    case 5:
      step.kind = StepKind::fast_register;
      step.length = chance_.of(std::array<std::int64_t, 3>{64, 4097, -1});
      step.rights = static_cast<std::int64_t>(chance_.any() & access::all);
      step.immediate = 7;
      break;
    case 6: step.kind = chance_.one_in(2) ? StepKind::accept : StepKind::reject; break;
    default: step.kind = StepKind::destroy; break;
  }
  return step;
}

Step IwarpStepGenerator::legal(const IwarpDeviceFixture& fixture, const StreamTester& tester, std::int64_t at) {
  const endpoint::Endpoint* of = fixture.endpoint(at);
  if (!of) return connect(at);
  if (of->ended()) {
    if (!chance_.one_in(5)) return connect(at);
    return segment(at);  // sent after the end of the stream
  }
  if (machines::is_timed(of->phase())) {
    Step step{.kind = StepKind::setup, .at = at};
    if (options_.timing && chance_.one_in(8)) return {.kind = StepKind::wait, .at = at, .nanoseconds = 6'000'000'000};
    set_up(step, fixture.bases(at).device_initiated, of->options().mpa.peer_to_peer);
    return step;
  }
  if (of->phase() == MpaPhase::awaits_consumer) {
    if (chance_.one_in(6)) return segment(at);
    return {.kind = chance_.percent(70) ? StepKind::accept : StepKind::reject, .at = at};
  }
  if (of->stream() != StreamState::operating) {
    switch (chance_.below(8)) {
      case 0:
      case 1: return segment(at);
      case 2:
        if (options_.timing) return {.kind = StepKind::wait, .at = at, .nanoseconds = 2'000'000'000};
        return connect(at);
      case 3: return {.kind = StepKind::fin, .at = at};
      case 4: return post(at);
      default: return connect(at);
    }
  }
  if (of->phase() == MpaPhase::awaits_first_fpdu && of->agreement().peer_to_peer && chance_.percent(80)) {
    // RTR indication. RFC 6581, 9.2
    Step step{.kind = StepKind::segment, .at = at};
    step.opcode =
        code(chance_.of(std::array{RdmapOperation::send, RdmapOperation::rdma_write, RdmapOperation::read_request}));
    return step;
  }
  if (chance_.one_in(45)) return connect(at);
  if (!tester.requests().empty() && chance_.percent(55)) return answer(tester.requests().front(), at);
  if (of->receives() == 0 && chance_.one_in(3)) {
    Step step{.kind = StepKind::receive, .at = at};
    step.length = chance_.one_in(4) ? 16 : 1024;
    return step;
  }
  if (chance_.one_in(8)) return post(at);
  if (options_.timing && chance_.one_in(16))
    return {.kind = StepKind::wait, .at = at, .length = chance_.of(std::array<std::int64_t, 3>{1, 1000, 2000})};
  if (options_.timing && chance_.one_in(40)) return {.kind = StepKind::wait, .at = at, .nanoseconds = 100'000};
  if (options_.verbs && chance_.one_in(10)) return verbs(at);
  if (chance_.one_in(40)) {
    Step step{.kind = chance_.one_in(3) ? StepKind::abort : StepKind::fin, .at = at};
    if (options_.timing && chance_.one_in(2)) step.nanoseconds = 1;
    return step;
  }
  if (chance_.one_in(60)) {
    Step step{.kind = StepKind::segment, .at = at, .opcode = code(RdmapOperation::terminate)};
    step.value = chance_.of(std::array<std::int64_t, 4>{0x0101, 0x1203, 0x2002, 0x0000});
    return step;
  }
  return segment(at);
}

void IwarpStepGenerator::mutate_setup(Step& step) {
  using namespace setup_flags;
  switch (chance_.below(8)) {
    case 0: step.flags ^= chance_.of(std::array{no_crc, markers, enhanced, reject, setup_flags::peer_to_peer}); break;
    case 1: step.flags ^= chance_.one_in(2) ? other_key : no_key; break;
    case 2:
      step.payload = chance_.of(std::array<std::int64_t, 8>{1, 255, 256, 257, 508, 509, 512, 513});
      if (!chance_.one_in(3)) break;
      step.flags |= enhanced | short_data;
      step.payload = static_cast<std::int64_t>(chance_.below(4));
      break;
    case 3: step.flags ^= chance_.of(std::array{rtr_send, rtr_write, rtr_read}); break;
    case 4: step.ird = chance_.of(std::array<std::int64_t, 5>{0, 1, 9, 0x3ffe, 0x3fff}); break;
    case 5: step.ord = chance_.of(std::array<std::int64_t, 5>{0, 1, 9, 0x3ffe, 0x3fff}); break;
    case 6:
      step.mutations.push_back({.kind = Mutation::Kind::extend,
                                .value = static_cast<std::int64_t>(1 + chance_.below(chance_.one_in(2) ? 4 : 40))});
      break;
    default:
      step.mutations.push_back({.kind = chance_.one_in(2) ? Mutation::Kind::cut : Mutation::Kind::split,
                                .value = static_cast<std::int64_t>(1 + chance_.below(30))});
      break;
  }
}

void IwarpStepGenerator::mutate(Step& step) {
  step.mutated = true;
  if (step.kind != StepKind::segment) return mutate_setup(step);
  const RdmapOpcode& op = rdmap_opcode(static_cast<std::uint8_t>(step.opcode & 15));
  const bool names_memory = op.tagged || operation_of(step) == RdmapOperation::read_request ||
                            operation_of(step) == RdmapOperation::atomic_request;
  const std::int64_t bytes = operation_of(step) == RdmapOperation::read_request ? step.length
                             : op.tagged                                        ? step.payload
                                                                                : 8;
  switch (chance_.below(14)) {
    case 0:
    case 1:
      step.msn += chance_.of(std::array<std::int64_t, 8>{-1, 1, 2, -2, 0x7fffffff, std::int64_t{1} << 31, -5, 16});
      break;
    case 2:
    case 3:
      step.mo += chance_.of(std::array<std::int64_t, 8>{1, 4, 8, -1, 64, 0x7fffffff, -4, 1024});
      if (chance_.one_in(3)) step.payload = 0;
      break;
    case 4: step.queue += chance_.of(std::array<std::int64_t, 7>{1, -1, 2, 3, 4, 0x7fffffff, -2}); break;
    case 5:
    case 6:
      if (chance_.one_in(4)) step.payload = chance_.one_in(2) ? 0 : step.payload;
      if (chance_.one_in(6)) step.length = 0;
      if (operation_of(step) == RdmapOperation::read_response || chance_.one_in(4)) {
        step.flags ^= segment_flags::other_stag;
        break;
      }
      step.key = static_cast<std::int64_t>(chance_.below(keys));
      if (step.offset + bytes > bytes_of(step.key) && chance_.one_in(2)) step.offset = 0;
      break;
    case 7:
    case 8: {
      const std::int64_t bytes_of_key = bytes_of(step.key);
      if (!names_memory) {
        step.payload = chance_.of(std::array<std::int64_t, 7>{0, 1, 17, 1023, 1024, 1025, 1400});
        break;
      }
      step.offset =
          chance_.of(std::array<std::int64_t, 10>{bytes_of_key - bytes, bytes_of_key - bytes + 1, bytes_of_key - 1,
                                                  bytes_of_key, -1, -8, 4, step.offset + 4, step.offset + 1, -bytes});
      // The end address of the access wraps around 2^64.
      if (chance_.one_in(4))
        step.offset =
            -static_cast<std::int64_t>(0x7f0000000000) - 0x10000 - static_cast<std::int64_t>(chance_.below(64));
      break;
    }
    case 9:
      step.length = chance_.of(std::array<std::int64_t, 9>{0, 1, step.length + 1, step.length + 12, 4096, 4097,
                                                           0x7fffffff, 0x80000000, 0xffffffff});
      break;
    case 10:
      step.payload =
          std::clamp<std::int64_t>(chance_.of(std::array<std::int64_t, 8>{0, 1, 4, step.payload - 1, step.payload + 1,
                                                                          step.payload + 4, step.payload + 8, 1300}),
                                   0, 4300);
      break;
    case 11: step.flags ^= segment_flags::more; break;
    case 12:
      step.flags ^= chance_.of(std::array{segment_flags::other_model, segment_flags::other_id, segment_flags::more});
      if (operation_of(step) == RdmapOperation::atomic_request)
        step.number = static_cast<std::int64_t>(chance_.below(16));
      break;
    default:
      step.opcode = static_cast<std::int64_t>(chance_.below(16));
      if (rdmap_opcode(static_cast<std::uint8_t>(step.opcode)).header) step.payload = 0;
      break;
  }
}

void IwarpStepGenerator::change_fields(Step& step, const IwarpDeviceFixture& fixture, const StreamTester& tester) {
  const auto bytes = tester.plain(step, fixture.objects(), fixture.bases(step.at));
  HeaderStack stack;
  decode_stream(stack, bytes);
  if (stack.layers().empty()) return;
  Mutation mutation = change_of_field(chance_, bytes, stack.layers());
  if (mutation.kind == Mutation::Kind::bad_icrc) mutation.kind = Mutation::Kind::bad_crc;
  step.mutations.push_back(mutation);
  if (step.kind == StepKind::segment && chance_.one_in(10))
    step.mutations.push_back({.kind = Mutation::Kind::stale_crc});
  step.mutated = true;
}

void IwarpStepGenerator::change_whole(Step& step) {
  using Kind = Mutation::Kind;
  Mutation mutation;
  mutation.kind = step.kind == StepKind::segment
                      ? chance_.of(std::array{Kind::bad_crc, Kind::bad_crc, Kind::truncate, Kind::extend, Kind::cut,
                                              Kind::duplicate, Kind::drop, Kind::hold, Kind::splice, Kind::pad,
                                              Kind::marker, Kind::split, Kind::split, Kind::join, Kind::join})
                      : chance_.of(std::array{Kind::cut, Kind::extend, Kind::truncate, Kind::split, Kind::duplicate,
                                              Kind::join, Kind::drop});
  switch (mutation.kind) {
    case Kind::bad_crc: mutation.value = std::int64_t{1} << chance_.below(32); break;
    case Kind::truncate:
    case Kind::extend:
    case Kind::cut: mutation.value = 1 + static_cast<std::int64_t>(chance_.below(chance_.one_in(2) ? 4 : 40)); break;
    case Kind::splice: mutation.value = 1 + static_cast<std::int64_t>(chance_.below(64)); break;
    case Kind::pad: mutation.value = 1 + static_cast<std::int64_t>(chance_.below(255)); break;
    case Kind::marker: mutation.value = chance_.of(std::array<std::int64_t, 4>{4, -4, 1, 512}); break;
    case Kind::split: mutation.value = static_cast<std::int64_t>(chance_.below(64)); break;
    default: break;
  }
  step.mutations.push_back(mutation);
  step.mutated = true;
}

Step IwarpStepGenerator::next(const IwarpDeviceFixture& fixture, const std::array<StreamTester, 2>& testers) {
  const auto at = static_cast<std::int64_t>(chance_.one_in(6) ? 1 : 0);
  const StreamTester& tester = testers[static_cast<std::size_t>(at)];
  if (options_.verbs && fixture.endpoint(at) && chance_.one_in(24)) return misuse(at);
  Step step = legal(fixture, tester, at);
  const endpoint::Endpoint* of = fixture.endpoint(at);
  if (!is_sent_by_tester(step.kind)) {
    // A verbs call in a state that does not allow it counts as a mutation.
    step.mutated = of && (of->ended() || of->stream() != StreamState::operating) && step.kind != StepKind::wait;
    return step;
  }
  if (step.kind == StepKind::segment && (!of || of->ended() || !machines::takes_fpdus(of->phase()))) {
    step.mutated = true;
    return step;
  }
  if (chance_.percent(step.kind == StepKind::segment ? 45 : 70)) return step;
  switch (chance_.below(10)) {
    case 0:
      if (step.kind == StepKind::segment && !history_.empty()) {
        const Step& old = chance_.one_in(2) ? history_.back() : chance_.of(history_);
        if (old.at == at) {
          step = old;
          step.msn -= chance_.of(std::array<std::int64_t, 3>{0, 0, 1});
        }
      }
      step.mutated = true;
      break;
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
      mutate(step);
      if (chance_.one_in(6)) mutate(step);
      break;
    case 6:
    case 7: change_fields(step, fixture, tester); break;
    default: change_whole(step); break;
  }
  return step;
}

Step IwarpStepGenerator::plain(const IwarpDeviceFixture& fixture, const StreamTester& tester) {
  if (const endpoint::Endpoint* of = fixture.endpoint(0);
      !of || !machines::takes_fpdus(of->phase()) || of->stream() != StreamState::operating)
    return {.kind = StepKind::connect, .length = 1024, .depth = 4, .count = 4, .own_depth = 4};
  // An FPDU that would be valid at the start of the stream, with modified bytes.
  static constexpr auto known = [] {
    std::array<std::int64_t, 16> all{};
    for (std::int64_t i = 0; i < 16; ++i) all[static_cast<std::size_t>(i)] = i;
    return all;
  }();
  Step step{.kind = StepKind::segment, .opcode = chance_.of(known), .payload = 8, .length = 8, .mutated = true};
  if (rdmap_opcode(static_cast<std::uint8_t>(step.opcode)).header) step.payload = 0;
  const StreamBases bases = fixture.bases(0);
  const std::uint8_t queue = rdmap_opcode(static_cast<std::uint8_t>(step.opcode)).queue;
  step.msn = 1 - std::int64_t{bases.msn[queue & 3]};
  const auto fpdu = tester.plain(step, fixture.objects(), bases);
  HeaderStack stack;
  decode_stream(stack, fpdu);
  const auto layers = stack.layers();
  for (std::uint64_t i = 0, count = 1 + chance_.below(4); i < count && !layers.empty(); ++i) {
    const Layer& layer = layers[chance_.below(layers.size())];
    const Field& field = chance_.of(layer.header->fields);
    if (!field.is_number()) continue;
    step.mutations.push_back({.kind = Mutation::Kind::set,
                              .header = layer.header,
                              .field = &field,
                              .value = static_cast<std::int64_t>(chance_.any())});
  }
  if (chance_.one_in(2)) step.mutations.push_back({.kind = Mutation::Kind::stale_crc});
  return step;
}

}  // namespace rdmawire::fuzzer
