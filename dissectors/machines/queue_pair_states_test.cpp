#include "dissectors/machines/queue_pair_states.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rdmawire::machines {
namespace {

using enum QueuePairAttribute;
using Set = QueuePairAttributes;
using Service = QueuePairService;
using State = QueuePairState;

/// Returns the legal target states from `from`, in the order R I r s d e E. '-' marks an illegal transition.
std::string legal_from(Service service, State from) {
  std::string row;
  constexpr std::string_view letters = "RIrsdeE";
  for (const State to : queue_pair_states)
    row += transition(service, from, to).legal ? letters[static_cast<std::size_t>(to)] : '-';
  return row;
}

std::vector<std::string> legal(Service service) {
  std::vector<std::string> rows;
  for (const State from : queue_pair_states) rows.push_back(legal_from(service, from));
  return rows;
}

TEST(QueuePairTransitions, LegalTransitions) {
  const std::vector<std::string> reliable = {"RI----E",   // RESET
                                             "RIr---E",   // INIT
                                             "R--s--E",   // RTR
                                             "R--sd-E",   // RTS
                                             "R--sd-E",   // SQD
                                             "-------",   // SQE does not exist
                                             "R-----E"};  // ERR
  std::vector<std::string> unreliable = reliable;
  unreliable[5] = "R--s--E";
  EXPECT_EQ(legal(Service::rc), reliable);
  EXPECT_EQ(legal(Service::xrc_initiator), reliable);
  EXPECT_EQ(legal(Service::xrc_target), reliable);
  EXPECT_EQ(legal(Service::uc), unreliable);
  EXPECT_EQ(legal(Service::ud), unreliable);
}

struct Row {
  Service service;
  State from, to;
  Set required, optional;
};

// Sources: the manual page of ibv_modify_qp for transitions up to RTS, and the tables of drivers for the others.
TEST(QueuePairTransitions, AttributesOfTransitions) {
  const Set connected_running{current_state, access_flags, alternate_path, path_migration_state};
  const Row rows[] = {
      {Service::ud, State::reset, State::init, {pkey_index, port, qkey}, {}},
      {Service::uc, State::reset, State::init, {pkey_index, port, access_flags}, {}},
      {Service::rc, State::reset, State::init, {pkey_index, port, access_flags}, {}},
      {Service::xrc_initiator, State::reset, State::init, {pkey_index, port, access_flags}, {}},
      {Service::xrc_target, State::reset, State::init, {pkey_index, port, access_flags}, {}},
      {Service::ud, State::init, State::init, {}, {pkey_index, port, qkey}},
      {Service::rc, State::init, State::init, {}, {pkey_index, port, access_flags}},
      {Service::ud, State::init, State::rtr, {}, {pkey_index, qkey}},
      {Service::uc,
       State::init,
       State::rtr,
       {address_vector, path_mtu, destination_qpn, rq_psn},
       {alternate_path, access_flags, pkey_index}},
      {Service::rc,
       State::init,
       State::rtr,
       {address_vector, path_mtu, destination_qpn, rq_psn, max_dest_rd_atomic, min_rnr_timer},
       {alternate_path, access_flags, pkey_index}},
      {Service::xrc_initiator,
       State::init,
       State::rtr,
       {address_vector, path_mtu, destination_qpn, rq_psn},
       {alternate_path, access_flags, pkey_index}},
      {Service::xrc_target,
       State::init,
       State::rtr,
       {address_vector, path_mtu, destination_qpn, rq_psn, max_dest_rd_atomic, min_rnr_timer},
       {alternate_path, access_flags, pkey_index}},
      {Service::ud, State::rtr, State::rts, {sq_psn}, {current_state, qkey}},
      {Service::uc, State::rtr, State::rts, {sq_psn}, connected_running},
      {Service::rc,
       State::rtr,
       State::rts,
       {sq_psn, timeout, retry_count, rnr_retry, max_rd_atomic},
       connected_running | Set{min_rnr_timer}},
      {Service::xrc_initiator,
       State::rtr,
       State::rts,
       {sq_psn, timeout, retry_count, rnr_retry, max_rd_atomic},
       connected_running},
      {Service::xrc_target, State::rtr, State::rts, {sq_psn, timeout}, connected_running | Set{min_rnr_timer}},
      {Service::rc, State::rts, State::rts, {}, connected_running | Set{min_rnr_timer}},
      {Service::ud, State::rts, State::rts, {}, {current_state, qkey}},
      {Service::rc, State::rts, State::sqd, {}, {notify_drained}},
      {Service::ud, State::rts, State::sqd, {}, {notify_drained}},
      {Service::uc, State::sqd, State::rts, {}, connected_running},
      {Service::ud, State::sqd, State::sqd, {}, {pkey_index, qkey}},
      {Service::uc,
       State::sqd,
       State::sqd,
       {},
       {address_vector, alternate_path, access_flags, pkey_index, path_migration_state}},
      {Service::rc,
       State::sqd,
       State::sqd,
       {},
       {port, address_vector, timeout, retry_count, rnr_retry, max_rd_atomic, max_dest_rd_atomic, alternate_path,
        access_flags, pkey_index, min_rnr_timer, path_migration_state}},
      {Service::xrc_initiator,
       State::sqd,
       State::sqd,
       {},
       {port, address_vector, timeout, retry_count, rnr_retry, max_rd_atomic, alternate_path, access_flags, pkey_index,
        path_migration_state}},
      {Service::xrc_target,
       State::sqd,
       State::sqd,
       {},
       {port, address_vector, timeout, max_dest_rd_atomic, alternate_path, access_flags, pkey_index, min_rnr_timer,
        path_migration_state}},
      {Service::ud, State::sqe, State::rts, {}, {current_state, qkey}},
      {Service::uc, State::sqe, State::rts, {}, {current_state, access_flags}},
      {Service::rc, State::rts, State::err, {}, {}},
      {Service::rc, State::err, State::reset, {}, {}},
  };
  for (const Row& row : rows) {
    const QueuePairTransition step = transition(row.service, row.from, row.to);
    const std::string where = std::string(to_string(row.from)) + " to " + to_string(row.to) + " of service " +
                              std::to_string(static_cast<int>(row.service));
    EXPECT_TRUE(step.legal) << where;
    EXPECT_EQ(step.required.bits(), row.required.bits()) << where;
    EXPECT_EQ(step.optional.bits(), row.optional.bits()) << where;
  }
}

TEST(Modify, ReportsMissingAndDisallowedAttributes) {
  const Set to_rtr{address_vector, path_mtu, destination_qpn, rq_psn, max_dest_rd_atomic, min_rnr_timer};
  EXPECT_EQ(judge_modify(Service::rc, State::init, State::rtr, to_rtr), ModifyDecision{});
  EXPECT_EQ(judge_modify(Service::rc, State::init, State::rtr, to_rtr | Set{pkey_index}), ModifyDecision{});
  EXPECT_EQ(judge_modify(Service::rc, State::init, State::rtr, to_rtr - Set{rq_psn, path_mtu}),
            (ModifyDecision{ModifyAnswer::attribute_missing, {rq_psn, path_mtu}}));
  EXPECT_EQ(judge_modify(Service::rc, State::init, State::rtr, to_rtr | Set{timeout}),
            (ModifyDecision{ModifyAnswer::attribute_refused, {timeout}}));
  EXPECT_EQ(judge_modify(Service::rc, State::reset, State::rtr, to_rtr),
            (ModifyDecision{ModifyAnswer::illegal_transition, {}}));
  EXPECT_EQ(judge_modify(Service::ud, State::init, State::rtr, {}), ModifyDecision{});
  EXPECT_EQ(judge_modify(Service::ud, State::init, State::rtr, {rq_psn}),
            (ModifyDecision{ModifyAnswer::attribute_refused, {rq_psn}}));
  EXPECT_EQ(judge_modify(Service::rc, State::err, State::reset, {qkey}),
            (ModifyDecision{ModifyAnswer::attribute_refused, {qkey}}));
}

// Returns one letter for each of RESET INIT RTR RTS SQD SQE ERR: - rejected or dropped, q queued, w worked, f flushed.
template <class Function>
std::string in_each_state(Function function) {
  std::string row;
  for (const State state : queue_pair_states) row += function(state);
  return row;
}

TEST(QueuePairStates, WorkRequestsByState) {
  constexpr std::string_view letters = "-qwf";
  const auto sends = [&](Service service) {
    return in_each_state([&](State state) { return letters[static_cast<std::size_t>(post_send(service, state))]; });
  };
  const auto receives = [&](Service service) {
    return in_each_state([&](State state) { return letters[static_cast<std::size_t>(post_receive(service, state))]; });
  };
  EXPECT_EQ(sends(Service::rc), "---wq-f");
  EXPECT_EQ(sends(Service::uc), "---wqff");
  EXPECT_EQ(sends(Service::ud), "---wqff");
  EXPECT_EQ(sends(Service::xrc_initiator), "---wq-f");
  EXPECT_EQ(sends(Service::xrc_target), "-------") << "XRC targets have no send queue";
  EXPECT_EQ(receives(Service::rc), "-qwww-f");
  EXPECT_EQ(receives(Service::uc), "-qwwwwf");
  EXPECT_EQ(receives(Service::ud), "-qwwwwf");
  EXPECT_EQ(receives(Service::xrc_initiator), "-------");
  EXPECT_EQ(receives(Service::xrc_target), "-------") << "XRC only has shared receive queues";
}

TEST(QueuePairStates, ReceivedPacketsByState) {
  const auto requests = [](Service service) {
    return in_each_state([&](State state) { return takes_requests(service, state) ? 'w' : '-'; });
  };
  const auto responses = [](Service service) {
    return in_each_state([&](State state) { return takes_responses(service, state) ? 'w' : '-'; });
  };
  EXPECT_EQ(requests(Service::rc), "--www--");
  EXPECT_EQ(requests(Service::uc), "--wwww-");
  EXPECT_EQ(requests(Service::ud), "--wwww-");
  EXPECT_EQ(requests(Service::xrc_initiator), "-------");
  EXPECT_EQ(requests(Service::xrc_target), "--www--");
  EXPECT_EQ(responses(Service::rc), "---ww--");
  EXPECT_EQ(responses(Service::xrc_initiator), "---ww--");
  EXPECT_EQ(responses(Service::xrc_target), "-------");
  EXPECT_EQ(responses(Service::uc), "-------") << "nobody answers";
  EXPECT_EQ(responses(Service::ud), "-------");
}

TEST(QueuePairStates, SentPacketsByState) {
  const auto leaves = [](Service service) {
    constexpr std::string_view letters = "-fe";
    return in_each_state([&](State state) { return letters[static_cast<std::size_t>(sending(service, state))]; });
  };
  EXPECT_EQ(leaves(Service::rc), "---ef--");
  EXPECT_EQ(leaves(Service::ud), "---ef--");
  EXPECT_EQ(leaves(Service::xrc_target), "-------");
  EXPECT_EQ(after_send_error(Service::rc), State::err);
  EXPECT_EQ(after_send_error(Service::xrc_initiator), State::err);
  EXPECT_EQ(after_send_error(Service::uc), State::sqe);
  EXPECT_EQ(after_send_error(Service::ud), State::sqe);
}

static_assert(judge_modify(Service::uc, State::rtr, State::rts, {sq_psn}).answer == ModifyAnswer::done);

}  // namespace
}  // namespace rdmawire::machines
