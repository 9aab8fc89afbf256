#pragma once
/// What a rule is. Monitors report violations by rule, active cases name the rules that they exercise, and every
/// report,
/// `--list`, Wireshark's expert items and the documentation are derived from the tables.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace rdmawire::conformance {

/// How strongly the specification asks.
enum class Level : std::uint8_t {
  shall,
  should,
  may,   ///< optional behaviour: reported, never judged
  tool,  ///< a rule for ourselves: what a verdict of ours may not claim
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
  infiniband = 15,  ///< all that use the BTH
  iwarp = 16,
};
constexpr Services operator|(Services a, Services b) {
  return static_cast<Services>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr bool contains(Services set, Services one) {
  return (static_cast<unsigned>(set) & static_cast<unsigned>(one)) != 0;
}

/// Where a rule comes from. A number stands here only where its text, or someone who quotes or implements it, was read;
/// else the section's title alone. Releases number tables and statements differently.
struct Clause {
  std::string_view document;  ///< "IBTA vol 1", "RFC 5044"
  std::string_view number;    ///< "C9-148", "9.7.5.2.8"; empty: not known
  std::string_view title;     ///< of the section or statement, in our words; empty where the number says enough
  bool verified = true;       ///< the number is; false: "number unverified"
};

/// A clause of the InfiniBand specification whose number was verified.
consteval Clause ib(std::string_view number, std::string_view title = {}) { return {"IBTA vol 1", number, title}; }
/// One that is known by implementations and quotations alone. `near`: where it probably stands.
consteval Clause ib_unverified(std::string_view title, std::string_view near = {}) {
  return {"IBTA vol 1", near, title, false};
}
/// A section of an RFC.
consteval Clause rfc(std::string_view document, std::string_view section) { return {document, section, {}}; }
/// A rule of our own, or one that implementations share and no specification states.
consteval Clause practice(std::string_view title) { return {"practice", {}, title, false}; }

/// One rule. The id is stable: `SUBJECT.ROLE.TOPIC.STATEMENT` in lower case.
struct Rule {
  std::string_view id;     ///< "rc.responder.psn.sequence-error"
  std::string_view alias;  ///< the catalogue's number: "RSP-009"
  Level level = Level::shall;
  Mode mode = Mode::both;
  Services services = Services::rc;
  std::array<Clause, 4> clauses{};  ///< those with a document count
  std::string_view sentence;        ///< what must hold, in our words, one sentence
  std::string_view applies{};       ///< when, if not always: what a device must have, or a capture have seen

  [[nodiscard]] constexpr std::size_t clause_count() const {
    std::size_t count = 0;
    while (count < clauses.size() && !clauses[count].document.empty()) ++count;
    return count;
  }
};

}  // namespace rdmawire::conformance
