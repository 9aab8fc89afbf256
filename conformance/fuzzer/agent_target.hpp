#pragma once
/// Common part of the targets behind an agent: opens and reopens the device, and accesses memory and completions.

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

  /// Open the target. `first` is used instead of a new connection, if given.
  tl::expected<void, conformance::TargetError> open(std::unique_ptr<conformance::Target> first = nullptr);

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] Tolerance tolerance() const override { return {.exact = false, .verbs = false}; }
  std::optional<std::string> gone() override;
  std::vector<std::string> complaints() override;
  std::optional<std::string> revive() override;
  Bytes memory() override { return lost_ ? Bytes() : memory_->bytes(); }

 protected:
  /// Return the access rights of a region with all rights.
  virtual std::uint32_t all_rights();
  /// Create the objects that steps refer to, except protection domains, completion queue and memory, which exist.
  virtual void make_objects() = 0;
  /// Release the objects of a device that is closed.
  virtual void forget() = 0;
  /// Prepare a script: restore the initial memory content, and discard completions. Returns the reason if the device is
  /// lost.
  std::optional<std::string> begin();

  /// Send a command to the agent. Returns an empty object on errors.
  nlohmann::json run_command(const char* command, const nlohmann::json& arguments) {
    return memory_->run_command(command, arguments, lost_);
  }
  /// Send a command without waiting for its response, and ignore errors of the command.
  void post_command(const char* command, const nlohmann::json& arguments) {
    memory_->post_command(command, arguments, lost_);
  }
  /// Wait for the responses to the posted commands.
  void wait_for_posted() {
    if (memory_) memory_->wait_for_posted(lost_);
  }
  /// Send a command without waiting. Returns its number. nullopt: the agent is lost.
  std::optional<std::uint64_t> send_command(const char* command, const nlohmann::json& arguments);
  /// Return the response to a sent command. Empty on errors.
  nlohmann::json response_of(const char* command, std::optional<std::uint64_t> number);
  /// Send a command, and wait for its response and those of the posted commands. Adapts patience_ to the time that this
  /// takes.
  nlohmann::json run_barrier(const char* command, const nlohmann::json& arguments);
  /// Return whether the device is software on the agent's processor. It then processes earlier frames before the agent
  /// sends a response.
  [[nodiscard]] bool is_guest() const { return name_.starts_with("lab:"); }
  /// Request the completions without waiting.
  std::optional<std::uint64_t> send_poll();
  static std::vector<device::Completion> completions_in(const nlohmann::json& response);
  /// Return completions. Waits for at least `least` of them for up to `within`.
  std::vector<device::Completion> completions(std::size_t least = 0, std::chrono::milliseconds within = {});
  /// Return the agent's work request for a step of kind post. nullopt: verbs have no such opcode.
  std::optional<nlohmann::json> send_request(const Step& step);

  std::unique_ptr<conformance::Target> device_;
  std::optional<std::string> lost_;  ///< reason why the device is lost. No more commands are sent
  std::optional<RemoteMemory> memory_;
  std::uint32_t pd_ = 0, other_pd_ = 0, cq_ = 0;
  KnownObjects objects_;
  std::uint32_t received_ = 0;  ///< number of receive requests of this script
  std::uint64_t posted_ = 0;    ///< number of send requests of this script
  bool invalidates_ = false;    ///< a step of this script may have invalidated a key
  /// Time in nanoseconds after which a frame of the device counts as missing, if the rest of the outcome is as
  /// expected.
  std::int64_t patience_ = most_patience;

  static constexpr std::int64_t least_patience = 2'000'000, most_patience = 40'000'000;

 private:
  void make_memory();

  Reopen reopen_;
  std::string name_;
};

}  // namespace rdmawire::fuzzer
