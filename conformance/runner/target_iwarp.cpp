#include "conformance/runner/target_iwarp.hpp"

#include <fmt/format.h>

#include "conformance/device/iwarp/blind/blind_faults.hpp"
#include "conformance/device/iwarp/fault_table.hpp"
#include "conformance/device/iwarp/reference.hpp"
#include "conformance/device/roce/blind/blind_faults.hpp"
#include "conformance/device/roce/fault_table.hpp"
#include "dissectors/output/edit_distance.hpp"

namespace rdmawire::conformance {
namespace {

class ReferenceEndpointTarget final : public Target {
 public:
  tl::expected<void, TargetError> start(const TargetOptions& options) {
    endpoint::AdapterOptions adapter;
    adapter.rnic.seed = options.seed;
    device_.address = adapter.address;
    auto started = endpoint::ReferenceEndpoint::start(std::move(adapter));
    if (!started) return tl::unexpected(TargetError{false, started.error().message});
    reference_ = std::move(*started);
    if (auto set = set_faults(options.faults); !set) return set;
    auto opened = peer::Device::open(reference_->peer());
    if (!opened) return tl::unexpected(TargetError{false, opened.error().message});
    verbs_.emplace(std::move(*opened));
    device_.name = options.device;
    device_.peer = &reference_->peer();
    device_.device = &*verbs_;
    device_.tcp = &reference_->tcp();
    device_.patience.upper_bounds = true;
    device_.wire_delay = reference_->tcp().options().delay;
    device_.takes_slow = device_.takes_dangerous = true;
    device_.wish = [this](const MpaWishes& wishes) {
      machines::MpaSettings mpa = reference_->wished();
      mpa.revision = wishes.revision;
      mpa.markers = wishes.markers;
      mpa.crc = wishes.crc;
      mpa.enhanced = wishes.enhanced;
      mpa.rdmac = wishes.rdmac;
      mpa.peer_to_peer = wishes.peer_to_peer;
      mpa.rtr = {wishes.rtr_send, wishes.rtr_write, wishes.rtr_read};
      reference_->wish(mpa);
    };
    device_.switch_extensions = [this](bool on) { reference_->set_extensions(on); };
    device_.change_segments = [this](std::uint32_t bytes) { reference_->set_emss(bytes); };
    return {};
  }
  DeviceUnderTest& device() override { return device_; }
  [[nodiscard]] const DeviceUnderTest& device() const override { return device_; }
  [[nodiscard]] std::string details() const override { return "rdmawire's iWARP reference endpoint"; }
  tl::expected<void, TargetError> set_faults(const std::vector<std::string>& names) override {
    std::vector<endpoint::Fault> all;
    std::vector<const endpoint::IwarpBlindFault*> blind;
    for (const std::string& name : names) {
      if (const endpoint::IwarpBlindFault* found = endpoint::find_blind_fault(name)) {
        blind.push_back(found);
        continue;
      }
      const endpoint::FaultRow* fault = endpoint::find_fault(name);
      // A fault of the RoCE reference device
      if (!fault && (device::find_fault(name) || device::find_blind_fault(name))) continue;
      if (!fault) {
        std::vector<std::string_view> known;
        for (const endpoint::FaultRow& row : endpoint::fault_rows) known.push_back(row.name);
        return tl::unexpected(
            TargetError{true, fmt::format("unknown fault \"{}\"{}", name, output::did_you_mean(name, known))});
      }
      all.push_back(fault->fault);
    }
    reference_->set_faults(all, std::move(blind));
    return {};
  }
  [[nodiscard]] std::vector<std::string> faults() override {
    std::vector<std::string> names;
    for (const endpoint::FaultRow& row : endpoint::fault_rows)
      if (reference_->has_fault(row.fault)) names.emplace_back(row.name);
    for (const endpoint::IwarpBlindFault* fault : reference_->blind_faults()) names.emplace_back(fault->name);
    return names;
  }

 private:
  std::unique_ptr<endpoint::ReferenceEndpoint> reference_;
  std::optional<peer::Device> verbs_;
  DeviceUnderTest device_;
};

}  // namespace

tl::expected<std::unique_ptr<Target>, TargetError> open_reference_endpoint(const TargetOptions& options) {
  auto target = std::make_unique<ReferenceEndpointTarget>();
  if (auto started = target->start(options); !started) return tl::unexpected(started.error());
  return target;
}

}  // namespace rdmawire::conformance
