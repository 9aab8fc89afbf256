#include "conformance/report/ics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rdmawire::conformance {
namespace {

using testing::HasSubstr;
using Status = IcsFinding::Status;

void nothing(Bench&) {}
constexpr Case of_xrc{.rule = "rc.responder.psn.sequence-error", .needs = Need::xrc, .run = nothing};
constexpr Case of_uc{.rule = "rc.responder.psn.sequence-error", .variant = "uc", .needs = Need::uc, .run = nothing};

CaseResult ended(const Case& which, Verdict verdict) {
  CaseResult result;
  result.of = &which;
  result.judgment = {verdict, {}, "the device reports no support"};
  return result;
}

std::string error_of(const std::string& members) {
  const auto parsed = Ics::parse("{\"format\": 1,\n\"transport\": \"roce\",\n" + members + "}", "ics.json");
  return parsed ? std::string() : parsed.error();
}

TEST(Ics, ReadsStatementsAndIxit) {
  const auto ics = Ics::parse(
      R"({"format":1,"transport":"roce","capabilities":{"uc":true,"xrc":false,"ud":null},"limits":{"max_qp":7},
          "ixit":{"device":"agent:tcp:10.0.0.2:1","wire":"packet:eth1","allow":["192.0.2.2"],"slow":true,
                  "case_timeout_s":1.5,"frames_per_second":0,"congestion_management":null}})",
      "x");
  ASSERT_TRUE(ics) << ics.error();
  EXPECT_EQ(ics->claims("uc"), true);
  EXPECT_EQ(ics->claims("xrc"), false);
  EXPECT_EQ(ics->claims("ud"), std::nullopt);
  EXPECT_EQ(ics->limits.at("max_qp"), 7U);
  EXPECT_EQ(ics->ixit.wire, "packet:eth1");
  EXPECT_EQ(ics->ixit.allow, std::vector<std::string>{"192.0.2.2"});
  EXPECT_EQ(ics->ixit.case_timeout, 1.5);
  EXPECT_EQ(ics->ixit.frames_per_second, 0U);
  EXPECT_EQ(ics->ixit.congestion_management, std::nullopt);
}

TEST(Ics, ContradictionNamesLineAndMember) {
  EXPECT_EQ(error_of("\"capabilities\": {\"ud\": false,\n\"multicast\": true}"),
            "ics.json: line 4: capabilities.multicast: is true, but capabilities.ud is false: multicast requires UD");
  EXPECT_EQ(error_of("\"capabilities\": {\"shared_receive_queues\": true},\n\"limits\": {\n\"max_srq\": 0}"),
            "ics.json: line 5: limits.max_srq: is 0, but capabilities.shared_receive_queues is true");
  EXPECT_THAT(error_of(R"("capabilities":{"shared_receive_queues":false},"limits":{"max_srq":4})"),
              HasSubstr("limits.max_srq: is 4, but capabilities.shared_receive_queues is false"));
  EXPECT_THAT(error_of(R"("limits":{"max_qp_rd_atomic":16,"max_res_rd_atomic":8})"),
              HasSubstr("limits.max_qp_rd_atomic: is 16, but limits.max_res_rd_atomic is only 8"));
  EXPECT_THAT(error_of(R"("capabilities":{"congestion_management":false},"ixit":{"congestion_management":true})"),
              HasSubstr("ixit.congestion_management: is true, but capabilities.congestion_management is false"));
  EXPECT_THAT(error_of(R"("ixit":{"device":"lab:rxe","wire":"packet:eth1"})"),
              HasSubstr("has no effect on the device lab:rxe"));
  const auto iwarp = Ics::parse(R"({"format":1,"transport":"iwarp","capabilities":{"uc":true}})", "ics.json");
  ASSERT_FALSE(iwarp);
  EXPECT_EQ(iwarp.error(), "ics.json: line 1: capabilities.uc: is true, but iWARP does not have it");
}

TEST(Ics, MalformedFileIsReported) {
  EXPECT_THAT(Ics::parse("{\n", "i").error(), HasSubstr("i: line 2: invalid JSON"));
  EXPECT_EQ(Ics::parse("[]", "i").error(), "i: must be an object");
  EXPECT_EQ(Ics::parse(R"({"format":1})", "i").error(), "i: line 1: transport: must be \"roce\" or \"iwarp\"");
  EXPECT_EQ(error_of("\"limit\": {}"), "ics.json: line 3: limit: unknown member; did you mean limits?");
  EXPECT_THAT(error_of(R"("capabilities":{"xcr":true})"),
              HasSubstr("capabilities.xcr: unknown capability; did you mean xrc?"));
  EXPECT_THAT(error_of(R"("capabilities":{"xrc":1})"), HasSubstr("capabilities.xrc: must be true, false or null"));
  EXPECT_THAT(error_of(R"("capabilities":[])"), HasSubstr("capabilities: must be an object"));
  EXPECT_THAT(error_of(R"("limits":{"max_qp":-1})"), HasSubstr("limits.max_qp: must be a whole number"));
  EXPECT_THAT(error_of(R"("limits":{"max_q":1})"), HasSubstr("limits.max_q: unknown limit; did you mean max_"));
  EXPECT_THAT(error_of(R"("ixit":{"allow":[1]})"), HasSubstr("ixit.allow: must be a list of addresses"));
  EXPECT_THAT(error_of(R"("ixit":{"case_timeout_s":0})"),
              HasSubstr("ixit.case_timeout_s: must be a number of seconds"));
  EXPECT_THAT(error_of(R"("ixit":{"max_device_losses":0})"), HasSubstr("must be a whole number from 1 to"));
  EXPECT_THAT(error_of(R"("ixit":{"frames_per_second":4294967296})"), HasSubstr("must be a whole number from 0 to"));
  EXPECT_THAT(error_of(R"("ixit":{"devise":"x"})"), HasSubstr("ixit.devise: unknown member; did you mean device?"));
}

TEST(Ics, UnsupportedCaseOfDeclaredCapabilityFails) {
  Ics ics;
  ics.capabilities = {{"xrc", true}, {"uc", true}};
  ReportedCapabilities reported;
  reported.capabilities = {{"xrc", false}};
  CaseResult xrc = ended(of_xrc, Verdict::unsupported), uc = ended(of_uc, Verdict::unsupported);
  apply(ics, reported, xrc);
  EXPECT_EQ(xrc.judgment, (Judgment{Verdict::fail, "xrc, which the ICS declares", "the device reports no support"}));
  apply(ics, reported, uc);
  EXPECT_EQ(uc.judgment.verdict, Verdict::unsupported) << "another feature may be missing";
  ics.capabilities["xrc"] = false;
  CaseResult declared_absent = ended(of_xrc, Verdict::unsupported);
  apply(ics, reported, declared_absent);
  EXPECT_EQ(declared_absent.judgment.verdict, Verdict::unsupported);
}

TEST(Ics, EachStatementIsComparedWithTheDevice) {
  const auto status = [](std::optional<bool> claimed, std::optional<bool> has, std::vector<Verdict> verdicts) {
    Ics ics;
    if (claimed) ics.capabilities = {{"xrc", *claimed}};
    ReportedCapabilities reported;
    if (has) reported.capabilities = {{"xrc", *has}};
    std::vector<CaseResult> results{ended(of_uc, Verdict::fail)};  // needs another capability
    for (const Verdict one : verdicts) results.push_back(ended(of_xrc, one));
    const auto findings = check_ics(ics, reported, results);
    return findings.empty() ? std::nullopt : std::optional(findings.front().status);
  };
  EXPECT_EQ(status(true, true, {Verdict::pass}), Status::pass);
  EXPECT_EQ(status(true, false, {}), Status::fail);
  EXPECT_EQ(status(true, true, {Verdict::pass, Verdict::fail}), Status::fail);
  EXPECT_EQ(status(true, std::nullopt, {Verdict::unsupported}), Status::not_tested);
  EXPECT_EQ(status(false, true, {}), Status::unclaimed);
  EXPECT_EQ(status(false, std::nullopt, {Verdict::pass}), Status::unclaimed);
  EXPECT_EQ(status(false, false, {Verdict::unsupported}), Status::absent);
  EXPECT_EQ(status(std::nullopt, true, {Verdict::pass}), std::nullopt);
}

TEST(Ics, CasesOfAddressesAndCongestionManagementAreCounted) {
  const auto finding = [](const char* capability, bool claimed, const char* id, Verdict verdict) {
    Ics ics;
    ics.capabilities = {{capability, claimed}};
    return check_ics(ics, {}, std::vector{ended(*find_case(id), verdict)}).front();
  };
  for (const auto& [capability, id] :
       {std::pair("ipv6", "roce.sender.icrc.over-ipv6"), std::pair("ipv6", "roce.sender.udp.length/IPv6"),
        std::pair("ipv6", "cm.endpoint.messages.over-the-same-network/IPv6, by the CM"),
        std::pair("vlan", "roce.sender.vlan.priority-is-service-level/5"),
        std::pair("vlan", "roce.sender.ip.addresses-from-gids/VLAN"),
        std::pair("roce_v1", "roce.sender.version.as-gid-type/RoCEv1"),
        std::pair("congestion_management", "congestion.notification-point.cnp.answers-mark")}) {
    ASSERT_TRUE(find_case(id)) << id;
    EXPECT_EQ(finding(capability, true, id, Verdict::fail).status, Status::fail) << id;
    EXPECT_EQ(finding(capability, true, id, Verdict::pass).status, Status::pass) << id;
    EXPECT_EQ(finding(capability, true, id, Verdict::unsupported).status, Status::not_tested) << id;
    EXPECT_EQ(finding(capability, false, id, Verdict::pass).status, Status::unclaimed) << id;
  }
  // A device without congestion management passes this case.
  const char* negative = "congestion.notification-point.cnp.valid-packets-alone/wrong ICRC";
  EXPECT_EQ(finding("congestion_management", true, negative, Verdict::pass).status, Status::not_tested);
  EXPECT_EQ(finding("congestion_management", false, negative, Verdict::pass).status, Status::absent);
  EXPECT_EQ(finding("congestion_management", true, negative, Verdict::fail).status, Status::fail);
  EXPECT_EQ(finding("ipv6", true, "roce.sender.udp.length/IPv4", Verdict::fail).status, Status::not_tested);
}

TEST(Ics, LimitsAreComparedWithTheDevice) {
  Ics ics;
  ics.limits = {{"max_mr", 5}, {"max_mw", 5}, {"max_qp", 5}, {"max_srq", 5}};
  ReportedCapabilities reported;
  reported.limits = {{"max_mr", 4}, {"max_mw", 5}, {"max_qp", 6}};
  std::vector<Status> list;
  const auto findings = check_ics(ics, reported, {});
  for (const IcsFinding& one : findings) list.push_back(one.status);
  EXPECT_EQ(list, (std::vector{Status::fail, Status::pass, Status::unclaimed, Status::not_tested}));
  EXPECT_EQ(text_of(findings),
            "ICS fail       limits.max_mr: declared 5, reported by the device: 4\n"
            "ICS unclaimed  limits.max_qp: declared 5, reported by the device: 6\n"
            "ICS not tested limits.max_srq: declared 5, reported by the device: unknown\n"
            "ICS: 1 pass, 1 fail, 1 unclaimed, 1 not tested\n");
}

TEST(Ics, TemplateOfADeviceMatchesIt) {
  for (const Family family : {Family::infiniband, Family::iwarp}) {
    auto target = Target::open({.family = family});
    ASSERT_TRUE(target) << target.error().message;
    const std::string text = ics_template(**target, {}).dump(1);
    const auto ics = Ics::parse(text, "template");
    ASSERT_TRUE(ics) << ics.error() << text;
    EXPECT_EQ(ics->family, family);
    EXPECT_FALSE(ics->capabilities.empty());
    EXPECT_FALSE(ics->limits.empty());
    for (const IcsFinding& one : check_ics(*ics, query_capabilities(**target), {}))
      EXPECT_TRUE(one.status == Status::pass || one.status == Status::absent) << one.member;
  }
}

}  // namespace
}  // namespace rdmawire::conformance
