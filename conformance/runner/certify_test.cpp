#include "conformance/runner/certify.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "conformance/cases/remove_case.hpp"

namespace rdmawire::conformance {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr RuleId rule = "rc.responder.psn.sequence-error";

CertifyOptions options_for(std::uint64_t seed = 11) {
  CertifyOptions options;
  options.seed = seed;
  options.fresh = true;
  options.open = [](Family family) { return Target::open({.family = family, .seed = 3}); };
  return options;
}

void passes(Bench& bench) { bench.note("fine"); }
constexpr Case good{.rule = rule, .variant = "good", .run = passes};

std::vector<std::string> summary(const Certification& all) {
  std::vector<std::string> lines;
  for (const CaseResult& result : all.results) {
    std::string line = result.of->id() + ": " + std::string(to_string(result.judgment.verdict)) + " " +
                       result.judgment.actual + " " + std::to_string(result.seed);
    for (const Step& step : result.transcript) line += "\n" + std::to_string(step.time) + " " + step.text;
    lines.push_back(std::move(line));
  }
  return lines;
}

TEST(Certify, ResultsAreIndependentOfNumberOfWorkers) {
  std::vector<const Case*> some;
  for (const Case& which : cases())
    if (some.size() < 120) some.push_back(&which);
  CertifyOptions options = options_for();
  const Certification one = certify(some, options);
  options.jobs = 4;
  std::size_t ends = 0;
  options.on_end = [&](const CaseResult&) { ++ends; };
  const Certification four = certify(some, options);
  ASSERT_EQ(one.results.size(), some.size());
  EXPECT_EQ(summary(one), summary(four));
  EXPECT_EQ(ends, some.size());
  EXPECT_EQ(four.partial, "");
  for (std::size_t i = 0; i < some.size(); ++i) EXPECT_EQ(four.results[i].of, some[i]);
}

TEST(Certify, ThreadCreationFailureIsACaseError) {
  pthread_attr_t usual, huge;
  ASSERT_EQ(::pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(::pthread_getattr_default_np(&huge), 0);
  ASSERT_EQ(::pthread_attr_setstacksize(&huge, std::size_t{1} << 47), 0);  // the stack exceeds the address space
  CertifyOptions options = options_for();
  options.jobs = 3000;
  const OpenTarget open = options.open;
  const std::vector<const Case*> both{&good, &good};

  ASSERT_EQ(::pthread_setattr_default_np(&huge), 0);
  const Certification none = certify(both, options);
  ASSERT_EQ(::pthread_setattr_default_np(&usual), 0);
  EXPECT_THAT(none.partial, HasSubstr("0 of 2 cases ran: the device could not be opened"));

  options.open = [&](Family family) {
    ::pthread_setattr_default_np(&usual);
    auto target = open(family);
    ::pthread_setattr_default_np(&huge);
    return target;
  };
  const Certification errors = certify(both, options);
  ASSERT_EQ(::pthread_setattr_default_np(&usual), 0);
  ASSERT_EQ(errors.results.size(), 2U);
  for (const CaseResult& result : errors.results) {
    EXPECT_EQ(result.judgment.verdict, Verdict::error);
    EXPECT_THAT(result.judgment.actual, HasSubstr("cannot create a thread for the case"));
  }
  options.open = open;
  EXPECT_EQ(certify(both, options).results[1].judgment.verdict, Verdict::pass);
}

void waits_for_ever(Bench& bench) {
  for (;;) bench.pass(1'000'000);
}
constexpr Case endless{.rule = rule, .variant = "endless", .run = waits_for_ever};

TEST(Certify, HangingCaseIsAnErrorAndOthersRun) {
  CertifyOptions options = options_for();
  options.case_timeout = 2s;
  const std::vector<const Case*> both{&good, &endless, &good};
  const Certification all = certify(both, options);
  ASSERT_EQ(all.results.size(), 3U);
  EXPECT_EQ(all.results[0].judgment.verdict, Verdict::pass);
  EXPECT_EQ(all.results[1].judgment, (Judgment{Verdict::error, "", "the case took longer than 2.0 s"}));
  EXPECT_EQ(all.results[2].judgment.verdict, Verdict::pass);
  EXPECT_EQ(all.abandoned, 0U);
}

class Notes final : public Script {
 public:
  void run(Bench& bench) const override {
    bench.note("from a script");
    bench.deviates(Verdict::fail, "this", "that");
  }
};

TEST(Certify, AddedCasesRunLikeBuiltInCases) {
  static const Notes notes;
  const Case mine{.rule = rule, .variant = "a program's own", .run = notes};
  const Case* added = add_case(mine);
  ASSERT_NE(added, nullptr);
  EXPECT_EQ(add_case(mine), nullptr) << "the id exists already";
  EXPECT_EQ(find_case(mine.id()), added);
  EXPECT_EQ(find_case(cases()[3].id()), &cases()[3]);
  EXPECT_EQ(find_case("no such case"), nullptr);
  const std::vector<const Case*> both{&good, added};
  const Certification all = certify(both, options_for());
  ASSERT_EQ(all.results.size(), 2U);
  EXPECT_EQ(all.results[1].of, added);
  EXPECT_EQ(all.results[1].judgment, (Judgment{Verdict::fail, "this", "that"}));
  EXPECT_EQ(all.results[1].transcript.front().text, "from a script");
}

TEST(Certify, RemovedCaseCanBeAddedAgainAndStaysValid) {
  static const Notes notes;
  const Case mine{.rule = rule, .variant = "added twice", .run = notes};
  const Case* const first = add_case(mine);
  ASSERT_NE(first, nullptr);
  EXPECT_TRUE(remove_case(mine.id()));
  EXPECT_FALSE(remove_case(mine.id()));
  EXPECT_FALSE(remove_case(good.id())) << "a built-in case";
  EXPECT_EQ(find_case(mine.id()), nullptr);
  EXPECT_EQ(certify(std::vector<const Case*>{first}, options_for()).results.size(), 1U);
  const std::size_t before = added_cases().size();
  const Case* const second = add_case(mine);
  ASSERT_NE(second, nullptr);
  EXPECT_NE(second, first);
  EXPECT_EQ(find_case(mine.id()), second);
  EXPECT_EQ(added_cases().size(), before + 1);
  EXPECT_TRUE(remove_case(mine.id()));
}

std::atomic<bool> released = false;
void never_returns(Bench&) {
  while (!released) std::this_thread::sleep_for(5ms);
}
constexpr Case stuck{.rule = rule, .variant = "stuck", .run = never_returns};

TEST(Certify, UninterruptibleCaseIsAbandoned) {
  CertifyOptions options = options_for();
  options.case_timeout = 100ms;
  const Certification all = certify(std::vector<const Case*>{&stuck, &good}, options);
  ASSERT_EQ(all.results.size(), 2U);
  EXPECT_THAT(all.results[0].judgment.actual, HasSubstr("could not be interrupted"));
  EXPECT_EQ(all.results[0].of, &stuck);
  EXPECT_EQ(all.results[1].judgment.verdict, Verdict::pass);
  EXPECT_EQ(all.abandoned, 1U);
  released = true;
  std::this_thread::sleep_for(100ms);  // lets the abandoned thread release its device
}

std::atomic<int> turn = 0;
void changes_its_mind(Bench& bench) { bench.require(++turn % 3 != 2, "the same as before", "something else"); }
constexpr Case moody{.rule = rule, .variant = "moody", .run = changes_its_mind};

TEST(Certify, RepeatsDetectFlakyCases) {
  turn = 0;
  CertifyOptions options = options_for();
  options.repeat = 3;
  const Certification all = certify(std::vector<const Case*>{&moody, &good}, options);
  ASSERT_EQ(all.results.size(), 2U);
  const CaseResult& flaky = all.results[0];
  EXPECT_TRUE(flaky.flaky());
  EXPECT_EQ(flaky.attempts, (std::vector<Attempt>{{Verdict::pass, 11}, {Verdict::fail, 12}, {Verdict::pass, 13}}));
  EXPECT_EQ(flaky.judgment.verdict, Verdict::fail) << "the worst verdict is reported";
  EXPECT_EQ(flaky.seed, seed_of(moody, 12));
  EXPECT_FALSE(all.results[1].flaky());
  EXPECT_EQ(all.results[1].attempts.size(), 3U);
}

void keeps_a_domain(Bench& bench) {
  (void)bench.device().peer->call("alloc_pd", {{"device", bench.device().device->handle()}});
}
constexpr Case leaving{.rule = rule, .variant = "leaves something", .run = keeps_a_domain};

TEST(Certify, RemainingObjectsAreAnErrorAndDeviceIsReopened) {
  CertifyOptions options = options_for();
  options.fresh = false;
  int opened = 0;
  options.open = [&](Family) {
    ++opened;
    return Target::open({.seed = 3});
  };
  const Certification all = certify(std::vector<const Case*>{&leaving, &good, &good}, options);
  ASSERT_EQ(all.results.size(), 3U);
  EXPECT_EQ(all.results[0].judgment,
            (Judgment{Verdict::error, "", "after the case 1 objects of the case could not be released"}));
  EXPECT_EQ(all.results[2].judgment.verdict, Verdict::pass);
  EXPECT_EQ(opened, 2);
}

void loses_the_agent(Bench& bench) { bench.device().peer->close(); }
constexpr Case fatal{.rule = rule, .variant = "fatal", .run = loses_the_agent};

TEST(Certify, LostDeviceIsReopened) {
  CertifyOptions options = options_for();
  options.fresh = false;
  const Certification all = certify(std::vector<const Case*>{&good, &fatal, &good}, options);
  ASSERT_EQ(all.results.size(), 3U);
  EXPECT_EQ(all.results[1].judgment.verdict, Verdict::error);
  EXPECT_THAT(all.results[1].judgment.actual, HasSubstr("the device was lost"));
  EXPECT_EQ(all.results[2].judgment.verdict, Verdict::pass);
  EXPECT_EQ(all.partial, "");
}

TEST(Certify, TooManyDeviceLossesEndTheRun) {
  CertifyOptions options = options_for();
  options.most_losses = 2;
  const Certification all = certify(std::vector<const Case*>{&good, &fatal, &fatal, &good, &good}, options);
  EXPECT_EQ(all.results.size(), 3U);
  EXPECT_THAT(all.partial, HasSubstr("3 of 5 cases ran: the device was lost 2 times in a row"));
}

TEST(Certify, UnopenableDeviceEndsTheRun) {
  CertifyOptions options = options_for();
  options.open = [](Family) { return tl::unexpected(TargetError{false, "no such cable"}); };
  const Certification all = certify(std::vector<const Case*>{&good}, options);
  EXPECT_TRUE(all.results.empty());
  EXPECT_EQ(all.partial, "0 of 1 cases ran: no such cable");
}

TEST(Certify, StopEndsTheRunningCase) {
  CertifyOptions options = options_for();
  options.stop = eventfd(0, EFD_CLOEXEC);
  options.on_end = [&](const CaseResult& result) {
    if (result.of == &good) eventfd_write(options.stop, 1);
  };
  const auto began = std::chrono::steady_clock::now();
  const Certification all = certify(std::vector<const Case*>{&good, &endless, &good}, options);
  EXPECT_LT(std::chrono::steady_clock::now() - began, 30s);
  ASSERT_EQ(all.results.size(), 1U);
  EXPECT_EQ(all.partial, "1 of 3 cases ran: interrupted");
  ::close(options.stop);
}

TEST(Certify, TimeLimitEndsTheRun) {
  CertifyOptions options = options_for();
  options.timeout = 3s;
  const Certification all = certify(std::vector<const Case*>{&good, &endless, &good}, options);
  EXPECT_EQ(all.results.size(), 1U);
  EXPECT_THAT(all.partial, HasSubstr("the time limit of 3 s was reached"));
}

// A device that violates a basic rule is reported as violating it, and not as an error of every case.
TEST(Certify, BasicRuleThatTheTransferNeedsIsReported) {
  struct Row {
    const char* fault;
    const char* alias;
    Family family = Family::infiniband;
  };
  for (const Row& row :
       {Row{"never-acknowledges", "RSP-001"}, Row{"wrong-udp-port", "HDR-011"}, Row{"wrong-ip-protocol", "HDR-007"},
        Row{"icrc-reserved-unmasked", "HDR-017"}, Row{"addresses-next-queue-pair", "bth.sender.qpn.of-connection"},
        Row{"replies-with-request-key", "MPA-002", Family::iwarp},
        Row{"refuses-revision-1", "MPA-008", Family::iwarp}}) {
    std::vector<const Case*> some;
    for (const Case& which : cases())
      if (which.family() == row.family && (some.size() < 20 || &*which.rule == find_rule(row.alias)))
        some.push_back(&which);
    CertifyOptions options = options_for();
    options.open = [&](Family family) { return Target::open({.family = family, .seed = 3, .faults = {row.fault}}); };
    const Certification all = certify(some, options);
    ASSERT_EQ(all.basic.size(), 1U) << row.fault;
    EXPECT_EQ(all.basic.front().judgment.rule, find_rule(row.alias)) << row.fault;
    ASSERT_EQ(all.results.size(), some.size());
    std::size_t failures = 0;
    for (const CaseResult& result : all.results) {
      const bool own = &*result.of->rule == find_rule(row.alias);
      failures += own && result.judgment.verdict == Verdict::fail;
      if (own) continue;
      EXPECT_EQ(result.judgment.verdict, Verdict::inconclusive) << row.fault << ": " << result.of->id();
      EXPECT_THAT(result.judgment.actual, HasSubstr(row.alias));
    }
    EXPECT_GT(failures, 0U) << row.fault;
    // One device for all cases.
    options.fresh = false;
    const Certification bench = certify(some, options, *options.open(row.family));
    ASSERT_EQ(bench.basic.size(), 1U) << row.fault;
    EXPECT_EQ(bench.results.size(), some.size()) << bench.partial;
  }
}

TEST(Certify, FailedTransferMakesCasesErrors) {
  CertifyOptions options = options_for();
  options.open = [](Family) {
    auto target = Target::open({});
    if (target) (*target)->device().path.device_address[15] ^= 1;  // frames to an unused address
    return target;
  };
  const Certification all = certify(std::vector<const Case*>{&good, &good}, options);
  ASSERT_EQ(all.results.size(), 2U);
  for (const CaseResult& result : all.results) {
    EXPECT_EQ(result.judgment.verdict, Verdict::error);
    EXPECT_THAT(result.judgment.actual, HasSubstr("the transfer that checks the bench failed"));
  }
}

}  // namespace
}  // namespace rdmawire::conformance
