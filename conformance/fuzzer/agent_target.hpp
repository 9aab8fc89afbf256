#pragma once
/// What targets behind an agent have in common, whatever they speak: how they are opened, and again when they are gone;
/// memory and completions by verbs.

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "conformance/fuzzer/known_objects.hpp"
#include "conformance/fuzzer/remote_memory.hpp"
#include "conformance/fuzzer/target.hpp"

namespace rdmawire::fuzzer {

class AgentTarget : public Target {
 public:
  AgentTarget(Reopen reopen, std::string name) : reopen_(std::move(reopen)), name_(std::move(name)) {}

  /// `first` is used in place of a new one, where there is one.
  tl::expected<void, conformance::TargetError> open(std::unique_ptr<conformance::Target> first = nullptr);

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] Tolerance tolerance() const override { return {.exact = false, .verbs = false}; }
  std::optional<std::string> gone() override;
  std::vector<std::string> complaints() override;
  std::optional<std::string> revive() override;
  Bytes memory() override { return lost_ ? Bytes() : memory_->bytes(); }

 protected:
  /// Of regions with all rights.
  virtual std::uint32_t all_rights();
  /// Makes what steps name beside protection domains, the completion queue and memory, which are there.
  virtual void make_objects() = 0;
  /// Lets go of what was made at a device that ends now.
  virtual void forget() = 0;
  /// Makes everything ready for a life: memory as a world begins, no completions. What is gone tells so.
  std::optional<std::string> begin();

  /// Asks the agent; where it is refused, an empty object.
  nlohmann::json ask(const char* command, const nlohmann::json& arguments) {
    return memory_->ask(command, arguments, lost_);
  }
  /// What completed: so many at least, if they come within that time.
  std::vector<device::Completion> completions(std::size_t least = 0, std::chrono::milliseconds within = {});
  /// A step of kind post, as the agent is asked for it; numbered. Nothing: verbs have no such opcode.
  std::optional<nlohmann::json> send_request(const Step& step);

  std::unique_ptr<conformance::Target> device_;
  std::optional<std::string> lost_;  ///< why nothing is asked any more
  std::optional<RemoteMemory> memory_;
  std::uint32_t pd_ = 0, other_pd_ = 0, cq_ = 0;
  KnownObjects objects_;
  std::uint32_t received_ = 0;  ///< receive requests of this life
  std::uint64_t posted_ = 0;    ///< send requests of it
  bool invalidates_ = false;    ///< what was said in it may have taken a key away

 private:
  void make_memory();

  Reopen reopen_;
  std::string name_;
};

}  // namespace rdmawire::fuzzer
