#pragma once
/// The definition of a rule. Monitors report violations by rule, active cases list the rules that they exercise, and
/// reports, `--list`, Wireshark's expert items and the documentation are generated from the tables of rules.
///
/// A rule's id has four parts of lower-case words, `SUBJECT.ROLE.TOPIC.STATEMENT`, and never changes:
///
/// - SUBJECT: the protocol or object. `roce` for the RoCE encapsulation (Ethernet, IP, UDP, ICRC), `bth` for the
///   transport headers of every service, a service (`rc`, `uc`, `ud`, `xrc`), `congestion`, `qp` for states and
///   completions, `memory`, `port`, `cm`. For iWARP: `mpa` for connection establishment, `fpdu` for framing, markers
///   and CRCs, `ddp` for segments and their placement, `rdmap` for operations and streams, `terminate`.
/// - ROLE: the actor that must follow the rule.
///   - `requester` and `responder`: of a service, or of RDMAP operations with a response
///   - `sender` and `receiver`: of any packet
///   - `endpoint`: sender and receiver
///   - `notification-point` and `reaction-point`: of congestion management
///   - `active-side`: of the CM
///   - `initiator` and `responder`: of the MPA negotiation
///   - `data-source` and `data-sink`: of DDP
///   - `verbs`: the device toward its application
///   - `tester`: rdmawire, in rules of level `tool`
/// - TOPIC: the field, object or behavior, as the specification names it: `psn`, `msn`, `ack`, `nak`, `rnr`, `length`,
///   `access`, `duplicate`, `read`, `retry`, `timeout`.
/// - STATEMENT: the situation (`out-of-bounds`, `no-receive`) if the topic or the service implies the reaction,
///   otherwise the required property (`starts-at-zero`). Most silent drops by a receiver end in `-dropped`; the others
///   name the situation (`none-posted`, `receive-too-small`).
///
/// Useful selections are `rc.responder.*`, `*.length.*` and `*-dropped`.
///
/// A rule's sentence has the form `The <actor> shall|should|may <verb> ...` or `If <condition>, the <actor>
/// shall|should|may <verb> ...`. Its modal verb follows from the level.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace rdmawire::conformance {

/// The requirement level of a rule.
enum class Level : std::uint8_t {
  shall,
  should,
  may,   ///< optional or implementation-defined behavior: reported, never a violation
  tool,  ///< a requirement on rdmawire's own results, or on the device's statements about itself ("shall")
};

/// The ways in which a rule can be evaluated.
enum class Mode : std::uint8_t {
  active,   ///< only with a stimulus: an injected packet, or a verbs call on the device
  passive,  ///< only in a capture
  both,
  unit,  ///< in a unit test of the tester
};

/// Set of the services to which a rule applies.
enum class Services : std::uint8_t {
  none = 0,
  rc = 1,
  uc = 2,
  ud = 4,
  xrc = 8,
  reliable = 9,     ///< RC and XRC. The rules of RC also apply to XRC
  connected = 11,   ///< RC, UC and XRC
  infiniband = 15,  ///< all services with a BTH
  iwarp = 16,
  mrc = 32,
};
constexpr Services operator|(Services a, Services b) {
  return static_cast<Services>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
/// Returns whether `set` contains a service of `any`.
constexpr bool contains(Services set, Services any) {
  return (static_cast<unsigned>(set) & static_cast<unsigned>(any)) != 0;
}

/// The source of a rule. Its number counts as verified if the clause's text, a quotation or an implementation was read.
/// Otherwise the title identifies the clause. A table is always identified by its title, because its number depends on
/// the release of the specification.
struct Clause {
  std::string_view document;  ///< "IBTA vol 1" (with its annexes A14, A17, A19), "RFC 5044", "practice", "rdmawire"
  std::string_view number;    ///< "C9-148", "9.7.5.2.8". If not verified, a number that is probably near, or empty
  std::string_view title;     ///< paraphrased title of the section or statement. Empty if the number is sufficient
  bool verified = true;       ///< true: the number is verified

  /// Returns whether the source is a specification, rather than common practice or a requirement of rdmawire.
  [[nodiscard]] constexpr bool is_specification() const { return document != "practice" && document != "rdmawire"; }
};

/// A clause of the InfiniBand specification with a verified number. `title`: may be the section that contains a
/// statement.
consteval Clause ib(std::string_view number, std::string_view title = {}) { return {"IBTA vol 1", number, title}; }
/// A clause that is known only from implementations and quotations. `near` is its probable position.
consteval Clause ib_unverified(std::string_view title, std::string_view near = {}) {
  return {"IBTA vol 1", near, title, false};
}
/// A section of an RFC. `part` narrows it down: "rule 5", "figure 9", a field.
consteval Clause rfc(std::string_view document, std::string_view section, std::string_view part = {}) {
  return {document, section, part};
}
/// A common practice of implementations that is in no specification. `title`: the evidence.
consteval Clause practice(std::string_view title) { return {"practice", {}, title, false}; }
/// A requirement of rdmawire itself.
consteval Clause our_own(std::string_view title) { return {"rdmawire", {}, title, false}; }

/// One rule.
struct Rule {
  std::string_view id;       ///< "rc.responder.psn.sequence-error"
  std::string_view alias{};  ///< number in the catalog, "RSP-009". Empty: the rule is not in the catalog
  Level level = Level::shall;
  Mode mode = Mode::both;
  Services services = Services::none;
  std::array<Clause, 8> clauses{};  ///< sources. Entries without a document are unused
  std::string_view sentence;        ///< the requirement in one sentence, paraphrased
  std::string_view stimulus;        ///< phrase that names the event that exercises the rule
  std::string_view applies{};       ///< precondition on the device or capture. Empty: the rule always applies

  [[nodiscard]] constexpr std::size_t clause_count() const {
    std::size_t count = 0;
    while (count < clauses.size() && !clauses[count].document.empty()) ++count;
    return count;
  }
  /// Returns the used entries of `clauses`.
  [[nodiscard]] constexpr std::span<const Clause> sources() const { return std::span(clauses).first(clause_count()); }
};

}  // namespace rdmawire::conformance
