/// READs that the responder cannot complete: IBTA vol 1, 9.7.5.1.3, 9.7.5.2.4, Table 63 (too many outstanding).

#include <algorithm>

#include "conformance/cases/files.hpp"
#include "conformance/cases/path_mtu.hpp"

namespace rdmawire::conformance::rc_responder_reads_cases {
namespace {

// More READs than max_dest_rd_atomic: the device may reject or execute them.
void one_more_than_allowed(Bench& bench) {
  constexpr std::uint32_t length = 16 * 1024;
  Connected& qp = bench.rc({.mtu = small_packets, .region_bytes = length, .reads_at_once = 1});
  const auto packets = static_cast<std::int32_t>(length / qp.mtu);
  bench >> qp.read(psn(+0), qp.at(0, length)) >> qp.read(psn(packets), qp.at(0, 8));
  const std::vector<Seen> all = bench.all_until_silence();
  if (all.empty()) end_case(Verdict::fail, "no response");
  const Seen& last = all.back();
  if (read_response(Position::only, psn(packets)).judge(last) == Match::yes)
    end_case(Verdict::may, "both READs were executed, although max_dest_rd_atomic is 1");
  if (nak_invalid_request(psn(packets)).judge(last) == Match::yes)
    end_case(Verdict::may, "the second READ was rejected with a NAK (invalid request)");
  bench.require(false, "both READs executed, or the second rejected with a NAK (invalid request)", last.text());
}

// The region is deregistered during the responses: they end with a NAK that has the PSN of the failed packet, and no
// packet contains data of inaccessible memory. The amount of data sent before is implementation-defined. A READ that
// finishes before the deregistration proves nothing.
std::vector<Seen> read_during_deregistration(Bench& bench, Connected& qp, peer::Region& doomed, std::uint32_t length) {
  bench >> qp.read(psn(+0), Bench::of(doomed, 0, length));
  std::vector<Seen> all{bench.wait(read_response(Position::first, psn(+0)))};
  bench.take(doomed.release(), "the region deregistered");
  for (Seen& seen : bench.all_until_silence()) all.push_back(std::move(seen));
  return all;
}
void ends_with_an_error(const std::vector<Seen>& all) {
  if (all.back().op->position == Position::last && all.back().op->operation == Operation::rdma_read_response)
    end_case(Verdict::inconclusive, "the READ was answered completely before the region was deregistered");
}

constexpr std::uint32_t long_read = 1U << 20;

void error_inside_a_read(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets});
  peer::Region doomed = bench.region(long_read, {"local_write", "remote_read"});
  const std::vector<Seen> all = read_during_deregistration(bench, qp, doomed, long_read);
  ends_with_an_error(all);
  const psn failed(static_cast<std::int32_t>(all.size()) - 1);
  const Expectation expected = nak_remote_access(failed);
  const Match match = expected.judge(all.back());
  if (match == Match::wrong_code) throw CaseEnd{{Verdict::fail_wrong_code, expected.text(), all.back().text()}};
  bench.require(match == Match::yes, expected.text(), all.back().text());
}

void no_stale_data(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets});
  peer::Region doomed = bench.region(long_read, {"local_write", "remote_read"});
  bench.take(doomed.fill("byte", 0x5a), "the region filled");
  const std::vector<Seen> all = read_during_deregistration(bench, qp, doomed, long_read);
  for (const Seen& seen : all)
    bench.require(std::all_of(seen.payload.begin(), seen.payload.end(), [](std::uint8_t o) { return o == 0x5a; }),
                  "only bytes of the region", seen.text());
  ends_with_an_error(all);
  const Expectation expected("NAK remote access error after the data that was read", [](const Seen& seen) {
    if (seen.op->operation != Operation::acknowledge || seen.kind() != syndrome_kind::nak) return Match::no;
    return seen.code() == nak_code::remote_access_error ? Match::yes : Match::wrong_code;
  });
  const Match match = expected.judge(all.back());
  if (match == Match::wrong_code) throw CaseEnd{{Verdict::fail_wrong_code, expected.text(), all.back().text()}};
  bench.require(match == Match::yes, expected.text(), all.back().text());
}

}  // namespace

std::span<const Case> all() {
  static constexpr Case list[] = {
      {.rule = "rc.responder.read.too-many", .run = one_more_than_allowed},
      {.rule = "rc.responder.read.error-psn",
       .run = error_inside_a_read,
       .possible_problems = "the device may delay the deregistration until the response is complete"},
      {.rule = "rc.responder.read.no-stale-data",
       .run = no_stale_data,
       .possible_problems = "the device may delay the deregistration until the response is complete"},
  };
  return list;
}

}  // namespace rdmawire::conformance::rc_responder_reads_cases
