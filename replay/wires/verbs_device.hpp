#pragma once
/// Internal: owning handles for RDMA devices and their objects.

#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "replay/wires/wire.hpp"

namespace rdmawire::replay::rdma {

// Deleter that calls a function of libibverbs.
template <auto give_back>
struct Return {
  template <class T>
  void operator()(T* what) const {
    give_back(what);
  }
};
using Context = std::unique_ptr<ibv_context, Return<ibv_close_device>>;
using Domain = std::unique_ptr<ibv_pd, Return<ibv_dealloc_pd>>;
using Region = std::unique_ptr<ibv_mr, Return<ibv_dereg_mr>>;
using Channel = std::unique_ptr<ibv_comp_channel, Return<ibv_destroy_comp_channel>>;
using Queue = std::unique_ptr<ibv_cq, Return<ibv_destroy_cq>>;
using QueuePair = std::unique_ptr<ibv_qp, Return<ibv_destroy_qp>>;
// ibv_destroy_flow is a static inline function, so it cannot be a template argument.
struct ReturnFlow {
  void operator()(ibv_flow* flow) const { ibv_destroy_flow(flow); }
};
using Flow = std::unique_ptr<ibv_flow, ReturnFlow>;

// Equal-length slots in whole pages.
class Slots {
 public:
  Slots() = default;
  Slots(std::size_t count, std::size_t bytes) : each_((bytes + 63) / 64 * 64), all_(each_ * count) {
    void* const at = mmap(nullptr, all_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    begin_ = at == MAP_FAILED ? nullptr : static_cast<std::uint8_t*>(at);
  }
  Slots(const Slots&) = delete;
  Slots& operator=(Slots&& other) noexcept {
    std::swap(begin_, other.begin_);
    std::swap(each_, other.each_);
    std::swap(all_, other.all_);
    return *this;
  }
  ~Slots() {
    if (begin_) munmap(begin_, all_);
  }
  [[nodiscard]] std::uint8_t* at(std::size_t slot) const { return begin_ + slot * each_; }
  [[nodiscard]] std::size_t bytes() const { return all_; }
  explicit operator bool() const { return begin_ != nullptr; }

 private:
  std::uint8_t* begin_ = nullptr;
  std::size_t each_ = 0, all_ = 0;
};

/// Error of a libibverbs call, with the missing privilege or a hint if errno indicates one.
WireError failed(const std::string& name, std::string_view doing, int number);

class DeviceList {
 public:
  static WireResult<DeviceList> get(const std::string& name);
  DeviceList() = default;
  DeviceList(DeviceList&& other) noexcept
      : devices_(std::exchange(other.devices_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  DeviceList& operator=(DeviceList&&) = delete;
  ~DeviceList() {
    if (devices_) ibv_free_device_list(devices_);
  }
  [[nodiscard]] ibv_device** begin() const { return devices_; }
  [[nodiscard]] ibv_device** end() const { return devices_ + count_; }

 private:
  ibv_device** devices_ = nullptr;
  int count_ = 0;
};

std::string_view state_name(ibv_port_state state);

struct Device {
  Context context;
  ibv_device_attr_ex attributes{};
  ibv_port_attr port{};
  std::string interface;
};

/// Opens a device and queries its attributes.
WireResult<Device> open_device(const std::string& name, ibv_device* which, std::uint32_t port);
WireResult<void> check_link_layer(const std::string& name, const Device& device);
/// Error for a QP that could not be created.
WireError no_raw_packets(const std::string& name, const Device& device, int number);

struct Sizes {
  std::uint32_t send = 1, receive = 1, inline_bytes = 0;
};

/// Uses ibv_wr_* if `requests` is set and the device supports it. Clears `requests` otherwise. On failure, errno is
/// set.
QueuePair make_queue_pair(ibv_context* context, ibv_pd* domain, ibv_cq* send, ibv_cq* receive, const Sizes& sizes,
                          bool& requests);

}  // namespace rdmawire::replay::rdma
