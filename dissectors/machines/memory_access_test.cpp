#include "dissectors/machines/memory_access.hpp"

#include <gtest/gtest.h>

namespace rdmawire::machines {
namespace {

constexpr std::uint64_t top = 0xffffffffffffffff;
constexpr auto all_rights = static_cast<MemoryRights>(127);

/// A region of 4096 bytes at 0x10000 in domain 1 that is readable and writable.
constexpr MemoryObject region{
    .domain = 1, .rights = MemoryRights::remote_read | MemoryRights::remote_write, .base = 0x10000, .length = 4096};
constexpr RemoteAccess reading{.address = 0x10000,
                               .length = 4096,
                               .needed = MemoryRights::remote_read,
                               .domain = 1,
                               .queue_pair = 17,
                               .queue_pair_rights = all_rights};

constexpr AccessDecision allowed{};
constexpr AccessDecision refused(AccessReason reason) { return {AccessAnswer::remote_access_error, reason}; }

template <class Value, class Change>
constexpr Value with(Value value, Change change) {
  change(value);
  return value;
}

TEST(MemoryAccess, BoundsAreExact) {
  struct Row {
    std::uint64_t address, length;
    AccessDecision decision;
  };
  constexpr auto outside = refused(AccessReason::out_of_bounds);
  constexpr auto beyond = refused(AccessReason::beyond_address_space);
  constexpr Row rows[] = {
      {0x10000, 4096, allowed},
      {0x10000, 1, allowed},
      {0x10fff, 1, allowed},
      {0x10800, 2048, allowed},
      {0x10000, 4097, outside},
      {0x0ffff, 1, outside},
      {0x0ffff, 4096, outside},
      {0x11000, 1, outside},
      {0x10fff, 2, outside},
      {0, 1, outside},
      {top, 1, outside},
      {top, 2, beyond},
      {0x10000, top, beyond},
      {0x10001, top - 0x10000, outside},
      {0x10002, top - 0x10000, beyond},
      {top - 4095, 4096, outside},
      {top - 4094, 4096, beyond},
      {1, top, outside},
      {2, top, beyond},
  };
  for (const Row& row : rows)
    EXPECT_EQ(judge_access(&region, with(reading,
                                         [&](RemoteAccess& a) {
                                           a.address = row.address;
                                           a.length = row.length;
                                         })),
              row.decision)
        << std::hex << row.address << " + " << row.length;
}

TEST(MemoryAccess, RegionAtTheEndOfTheAddressSpace) {
  const MemoryObject last = with(region, [](MemoryObject& o) { o.base = top - 4095; });
  const auto judge = [&](std::uint64_t address, std::uint64_t length) {
    return judge_access(&last, with(reading, [&](RemoteAccess& a) {
      a.address = address;
      a.length = length;
    }));
  };
  EXPECT_EQ(judge(top - 4095, 4096), allowed) << "the sum is 2^64";
  EXPECT_EQ(judge(top, 1), allowed);
  EXPECT_EQ(judge(top, 2), refused(AccessReason::beyond_address_space));
  EXPECT_EQ(judge(top - 4095, 4097), refused(AccessReason::beyond_address_space));
  EXPECT_EQ(judge(top - 4096, 4096), refused(AccessReason::out_of_bounds));
  EXPECT_EQ(judge(0, 1), refused(AccessReason::out_of_bounds)) << "addresses do not wrap";
  // A region of the maximum length.
  const MemoryObject everything = with(region, [](MemoryObject& o) {
    o.base = 0;
    o.length = top;
  });
  EXPECT_EQ(judge_access(&everything, with(reading,
                                           [](RemoteAccess& a) {
                                             a.address = 0;
                                             a.length = top;
                                           })),
            allowed);
}

TEST(MemoryAccess, ZeroBasedAddressesAreRelative) {
  const MemoryObject window = with(region, [](MemoryObject& o) {
    o.kind = MemoryKind::window_type_2b;
    o.queue_pair = 17;
    o.zero_based = true;
  });
  const auto judge = [&](std::uint64_t address, std::uint64_t length) {
    return judge_access(&window, with(reading, [&](RemoteAccess& a) {
      a.address = address;
      a.length = length;
    }));
  };
  EXPECT_EQ(judge(0, 4096), allowed);
  EXPECT_EQ(judge(4095, 1), allowed);
  EXPECT_EQ(judge(4096, 1), refused(AccessReason::out_of_bounds));
  EXPECT_EQ(judge(0x10000, 1), refused(AccessReason::out_of_bounds));
}

TEST(MemoryAccess, ZeroLengthIgnoresTheKey) {
  const RemoteAccess nothing = with(reading, [](RemoteAccess& a) { a.length = 0; });
  EXPECT_EQ(judge_access(nullptr, nothing), allowed);
  EXPECT_EQ(judge_access(&region, with(nothing, [](RemoteAccess& a) { a.address = top; })), allowed);
  EXPECT_EQ(judge_access(&region, with(nothing, [](RemoteAccess& a) { a.domain = 2; })), allowed);
  // The QP must permit the operation, even for zero bytes.
  EXPECT_EQ(judge_access(&region, with(nothing, [](RemoteAccess& a) { a.queue_pair_rights = MemoryRights::none; })),
            (AccessDecision{AccessAnswer::invalid_request, AccessReason::queue_pair_right}));
  // The region of a FLUSH is checked even for zero bytes.
  const RemoteAccess flush = with(nothing, [](RemoteAccess& a) { a.needed = MemoryRights::flush_global; });
  EXPECT_EQ(judge_access(nullptr, flush), refused(AccessReason::unknown_key));
  EXPECT_EQ(judge_access(&region, flush), refused(AccessReason::right));
}

TEST(MemoryAccess, KeysDomainsAndRights) {
  EXPECT_EQ(judge_access(&region, reading), allowed);
  EXPECT_EQ(judge_access(nullptr, reading), refused(AccessReason::unknown_key));
  const MemoryObject invalidated = with(region, [](MemoryObject& o) { o.valid = false; });
  EXPECT_EQ(judge_access(&invalidated, reading), refused(AccessReason::not_valid));
  EXPECT_EQ(judge_access(&region, with(reading, [](RemoteAccess& a) { a.domain = 2; })),
            refused(AccessReason::other_domain));
  const RemoteAccess atomic = with(reading, [](RemoteAccess& a) {
    a.needed = MemoryRights::remote_atomic;
    a.length = 8;
  });
  EXPECT_EQ(judge_access(&region, atomic), refused(AccessReason::right));
  EXPECT_EQ(judge_access(&region, with(atomic,
                                       [](RemoteAccess& a) {
                                         a.queue_pair_rights = MemoryRights::remote_read | MemoryRights::remote_write;
                                       })),
            (AccessDecision{AccessAnswer::invalid_request, AccessReason::queue_pair_right}));
  EXPECT_EQ(judge_access(nullptr, with(reading, [](RemoteAccess& a) { a.queue_pair_rights = MemoryRights::none; })),
            (AccessDecision{AccessAnswer::invalid_request, AccessReason::queue_pair_right}))
      << "the QP is checked before the key";
}

TEST(MemoryAccess, FlushOfAWholeRegion) {
  const MemoryObject persistent = with(region, [](MemoryObject& o) { o.rights = MemoryRights::flush_persistent; });
  const RemoteAccess whole = with(reading, [](RemoteAccess& a) {
    a.needed = MemoryRights::flush_persistent;
    a.address = top;
    a.length = top;
    a.whole_region = true;
  });
  EXPECT_EQ(judge_access(&persistent, whole), allowed) << "address and length are ignored";
  EXPECT_EQ(judge_access(&persistent, with(whole, [](RemoteAccess& a) { a.whole_region = false; })),
            refused(AccessReason::beyond_address_space));
  EXPECT_EQ(
      judge_access(
          &persistent,
          with(whole, [](RemoteAccess& a) { a.needed = MemoryRights::flush_persistent | MemoryRights::flush_global; })),
      refused(AccessReason::right))
      << "both placements are requested, one is permitted";
  EXPECT_EQ(judge_access(nullptr, whole), refused(AccessReason::unknown_key));
}

TEST(MemoryAccess, WindowsBelongToDomainsAndQueuePairs) {
  const auto judge = [](MemoryKind kind, std::uint32_t domain, std::uint32_t queue_pair) {
    const MemoryObject window = with(region, [&](MemoryObject& o) {
      o.kind = kind;
      o.queue_pair = 17;
    });
    return judge_access(&window, with(reading, [&](RemoteAccess& a) {
      a.domain = domain;
      a.queue_pair = queue_pair;
    }));
  };
  EXPECT_EQ(judge(MemoryKind::window_type_1, 1, 18), allowed) << "any QP of its domain";
  EXPECT_EQ(judge(MemoryKind::window_type_1, 2, 17), refused(AccessReason::other_domain));
  EXPECT_EQ(judge(MemoryKind::window_type_2a, 1, 17), allowed);
  EXPECT_EQ(judge(MemoryKind::window_type_2a, 1, 18), refused(AccessReason::other_queue_pair));
  EXPECT_EQ(judge(MemoryKind::window_type_2b, 1, 17), allowed);
  EXPECT_EQ(judge(MemoryKind::window_type_2b, 1, 18), refused(AccessReason::other_queue_pair));
  EXPECT_EQ(judge(MemoryKind::window_type_2b, 2, 17), refused(AccessReason::other_domain));
}

TEST(WindowBind, EveryErrorCase) {
  constexpr MemoryObject whole{
      .domain = 1, .rights = MemoryRights::bind | MemoryRights::local_write, .base = 0x10000, .length = 4096};
  constexpr MemoryObject free{.kind = MemoryKind::window_type_2b, .valid = false, .domain = 1};
  constexpr MemoryObject type_1{.kind = MemoryKind::window_type_1, .domain = 1};
  constexpr WindowBind bind{.address = 0x10000, .length = 4096, .rights = MemoryRights::remote_write, .domain = 1};
  EXPECT_EQ(judge_bind(free, &whole, bind), BindAnswer::done);
  EXPECT_EQ(judge_bind(type_1, &whole, bind), BindAnswer::done);
  EXPECT_EQ(judge_bind(whole, &whole, bind), BindAnswer::not_a_window);

  EXPECT_EQ(judge_bind(with(free, [](MemoryObject& o) { o.valid = true; }), &whole, bind), BindAnswer::window_in_use);
  EXPECT_EQ(judge_bind(type_1, &whole, bind), BindAnswer::done) << "a type 1 window may be rebound";
  const WindowBind elsewhere = with(bind, [](WindowBind& b) { b.domain = 2; });
  EXPECT_EQ(judge_bind(free, &whole, elsewhere), BindAnswer::window_other_domain);
  EXPECT_EQ(judge_bind(type_1, &whole, elsewhere), BindAnswer::window_other_domain);

  const WindowBind nothing = with(bind, [](WindowBind& b) { b.length = 0; });
  EXPECT_EQ(judge_bind(free, nullptr, bind), BindAnswer::no_region);
  EXPECT_EQ(judge_bind(free, &whole, nothing), BindAnswer::no_region);
  EXPECT_EQ(judge_bind(type_1, nullptr, nothing), BindAnswer::done) << "a bind of length 0 unbinds a type 1 window";
  EXPECT_EQ(judge_bind(type_1, nullptr, bind), BindAnswer::no_region);

  const WindowBind zero_based = with(bind, [](WindowBind& b) { b.zero_based = true; });
  EXPECT_EQ(judge_bind(type_1, &whole, zero_based), BindAnswer::zero_based_type_1);
  EXPECT_EQ(judge_bind(free, &whole, zero_based), BindAnswer::done);

  const auto to = [&](auto change) {
    const MemoryObject changed = with(whole, change);
    return judge_bind(free, &changed, bind);
  };
  EXPECT_EQ(to([](MemoryObject& o) { o.zero_based = true; }), BindAnswer::zero_based_region);
  EXPECT_EQ(to([](MemoryObject& o) { o.valid = false; }), BindAnswer::region_not_valid);
  EXPECT_EQ(to([](MemoryObject& o) { o.kind = MemoryKind::window_type_1; }), BindAnswer::region_not_valid);
  EXPECT_EQ(to([](MemoryObject& o) { o.domain = 2; }), BindAnswer::region_other_domain);
  EXPECT_EQ(to([](MemoryObject& o) { o.rights = MemoryRights::local_write; }), BindAnswer::region_not_bindable);
  EXPECT_EQ(to([](MemoryObject& o) { o.rights = MemoryRights::bind; }), BindAnswer::region_not_writable);
  EXPECT_EQ(to([](MemoryObject& o) { o.length = 4095; }), BindAnswer::out_of_bounds);
  EXPECT_EQ(to([](MemoryObject& o) { o.base = 0x10001; }), BindAnswer::out_of_bounds);
  EXPECT_EQ(judge_bind(free, &whole, with(bind, [](WindowBind& b) { b.length = top; })), BindAnswer::out_of_bounds)
      << "the sum of address and length wraps";

  constexpr MemoryObject only_bind{.domain = 1, .rights = MemoryRights::bind, .base = 0x10000, .length = 4096};
  EXPECT_EQ(judge_bind(free, &only_bind, with(bind, [](WindowBind& b) { b.rights = MemoryRights::remote_read; })),
            BindAnswer::done);
  EXPECT_EQ(judge_bind(free, &only_bind, with(bind, [](WindowBind& b) { b.rights = MemoryRights::remote_atomic; })),
            BindAnswer::region_not_writable);
}

TEST(Invalidate, EveryErrorCase) {
  constexpr MemoryObject fast{.kind = MemoryKind::fast_region, .domain = 1};
  const auto judge = [&](auto change, std::uint32_t queue_pair = 17) {
    const MemoryObject object = with(fast, change);
    return judge_invalidate(&object, 1, queue_pair);
  };
  EXPECT_EQ(judge([](MemoryObject&) {}), InvalidateAnswer::done);
  EXPECT_EQ(judge_invalidate(nullptr, 1, 17), InvalidateAnswer::unknown_key);
  EXPECT_EQ(judge([](MemoryObject& o) { o.valid = false; }), InvalidateAnswer::not_valid);
  EXPECT_EQ(judge([](MemoryObject& o) { o.domain = 2; }), InvalidateAnswer::other_domain);
  EXPECT_EQ(judge([](MemoryObject& o) { o.windows = 1; }), InvalidateAnswer::windows_bound);
  EXPECT_EQ(judge([](MemoryObject& o) { o.kind = MemoryKind::region; }), InvalidateAnswer::region_of_user);
  EXPECT_EQ(judge([](MemoryObject& o) { o.kind = MemoryKind::window_type_1; }), InvalidateAnswer::window_type_1);
  const auto window = [](MemoryObject& o) {
    o.kind = MemoryKind::window_type_2b;
    o.queue_pair = 17;
  };
  EXPECT_EQ(judge(window), InvalidateAnswer::done);
  EXPECT_EQ(judge(window, 18), InvalidateAnswer::other_queue_pair);
}

static_assert(judge_access(&region, reading).answer == AccessAnswer::allowed);

}  // namespace
}  // namespace rdmawire::machines
