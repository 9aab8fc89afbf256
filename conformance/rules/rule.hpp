#pragma once
/// What a rule is. Monitors report violations by rule, active cases name the rules that they exercise, and every
/// report, `--list`, Wireshark's expert items and the documentation are derived from the tables.
///
/// A rule's id has four parts of lower-case words, `SUBJECT.ROLE.TOPIC.STATEMENT`, and never changes:
///
/// - SUBJECT: what the rule is of. `roce` what RoCE puts around the transport headers (Ethernet, IP, UDP, ICRC), `bth`
///   the transport headers of every service, a service (`rc`, `uc`, `ud`, `xrc`), `congestion`, `qp` states and
///   completions, `memory`, `port`, `cm`. Of iWARP: `mpa` the set-up of a connection, `fpdu` its framing, markers and
///   CRCs, `ddp` segments and their placement, `rdmap` operations and streams, `terminate` the Terminate message.
/// - ROLE: who has to keep it. `requester` and `responder` of a service; `sender` and `receiver` of any packet;
///   `endpoint` in both; `notification-point` and `reaction-point` of congestion management; `active-side` of the CM;
///   `initiator` and `responder` of MPA's set-up; `data-source` and `data-sink` of DDP; of RDMAP's operations with an
///   answer `requester` and `responder`; `verbs` the device toward its own consumer; `tester` we ourselves.
/// - TOPIC: the field, object or behavior, in the specification's word: `psn`, `msn`, `ack`, `nak`, `rnr`, `length`,
///   `access`, `duplicate`, `read`, `retry`, `timeout`.
/// - STATEMENT: the situation (`out-of-bounds`, `no-receive`) where the topic or the service says what it draws, else
///   what holds (`starts-at-zero`). Silent drops by a receiver end in `-dropped`.
///
/// So `rc.responder.*`, `*.length.*` and `*-dropped` are useful selections.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace rdmawire::conformance {

/// How strongly the specification asks.
enum class Level : std::uint8_t {
  shall,
  should,
  may,   ///< optional behavior, or the device's own choice: reported, never judged
  tool,  ///< no specification's: what our own verdicts may claim, or whether what a device tells of itself is true
};

/// How a rule can be judged.
enum class Mode : std::uint8_t {
  active,   ///< only by a stimulus: an injected packet, or verbs at the device
  passive,  ///< only from a capture
  both,
  unit,  ///< a test of the tester itself
};

/// The services that a rule holds for; a set.
enum class Services : std::uint8_t {
  none = 0,
  rc = 1,
  uc = 2,
  ud = 4,
  xrc = 8,
  reliable = 9,     ///< RC, and XRC, which takes its rules over
  connected = 11,   ///< RC, UC and XRC
  infiniband = 15,  ///< all that use the BTH
  iwarp = 16,
};
constexpr Services operator|(Services a, Services b) {
  return static_cast<Services>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
/// Whether `set` holds any of `any`.
constexpr bool contains(Services set, Services any) {
  return (static_cast<unsigned>(set) & static_cast<unsigned>(any)) != 0;
}

/// Where a rule comes from. A number stands here as verified only where its text, or someone who quotes or implements
/// it, was read; else the section's title alone. Releases number tables differently: a table's title says which is
/// meant.
struct Clause {
  std::string_view document;  ///< "IBTA vol 1" (with its annexes A14, A17, A19), "RFC 5044"; "practice", "rdmawire"
  std::string_view number;    ///< "C9-148", "9.7.5.2.8"; where not verified, near what it probably stands, or empty
  std::string_view title;     ///< of the section or statement, in our words; empty where the number says enough
  bool verified = true;       ///< the number is

  /// Whether it is a specification's; else what implementations share, or our own.
  [[nodiscard]] constexpr bool is_specification() const { return document != "practice" && document != "rdmawire"; }
};

/// A clause of the InfiniBand specification whose number was verified. `title` may be the section of a statement.
consteval Clause ib(std::string_view number, std::string_view title = {}) { return {"IBTA vol 1", number, title}; }
/// One that is known by implementations and quotations alone. `near`: where it probably stands.
consteval Clause ib_unverified(std::string_view title, std::string_view near = {}) {
  return {"IBTA vol 1", near, title, false};
}
/// A section of an RFC. `part` of it, where it has many: "rule 5", "figure 9", a field.
consteval Clause rfc(std::string_view document, std::string_view section, std::string_view part = {}) {
  return {document, section, part};
}
/// What implementations do and no specification states: who says it.
consteval Clause practice(std::string_view title) { return {"practice", {}, title, false}; }
/// A demand of our own.
consteval Clause our_own(std::string_view title) { return {"rdmawire", {}, title, false}; }

/// One rule.
struct Rule {
  std::string_view id;       ///< "rc.responder.psn.sequence-error"
  std::string_view alias{};  ///< the catalog's number, "RSP-009"; empty for a rule that the catalog does not have
  Level level = Level::shall;
  Mode mode = Mode::both;
  Services services = Services::none;
  std::array<Clause, 8> clauses{};  ///< those with a document count; see sources()
  std::string_view sentence;        ///< what must hold, in our words, one sentence
  std::string_view stimulus;        ///< what brings the rule into play, one phrase
  std::string_view applies{};       ///< when, if not always: what a device must have, or a capture have seen

  [[nodiscard]] constexpr std::size_t clause_count() const {
    std::size_t count = 0;
    while (count < clauses.size() && !clauses[count].document.empty()) ++count;
    return count;
  }
  /// The clauses that the rule has.
  [[nodiscard]] constexpr std::span<const Clause> sources() const { return std::span(clauses).first(clause_count()); }
};

}  // namespace rdmawire::conformance
