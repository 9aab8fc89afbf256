#pragma once
/// Replaces libibverbs in tests: defines the ibv_* symbols that the agent uses, for one device whose QPs can connect to
/// each other. Like the kernel, it refuses to destroy objects in use. It aborts on invalid use: use after destruction,
/// closing a device in use, unacknowledged events. Thread-safe.

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace rdmawire::agent::fake_verbs {

inline constexpr const char* device_name = "fake0";

/// Number of verbs objects, including open devices and device lists.
std::size_t alive();

/// Makes the nth verbs call from now on fail with this errno. 1: the next call. 0: no call.
void fail_call(unsigned nth, int number);
/// Makes all release calls succeed until reset(). They are not counted for fail_call().
void spare_releases();
/// Number of calls since fail_call() that could fail.
unsigned calls();
/// Name of the failed call. Empty: none.
std::string failed_call();

/// Adds or removes the device. This takes effect for the next device list.
void plug(bool present);
/// Sets the directory that replaces /sys/class/infiniband/fake0.
void set_sysfs(const std::string& path);

/// Raises an event of port 1 on every open device.
void raise_port_event(ibv_event_type type);
/// Raises an event of a QP.
void raise_qp_event(std::uint32_t qp_num, ibv_event_type type);

/// Calls with this name (ibv_create_ah, ibv_modify_qp, rdma_connect) block until release_calls(). If
/// `can_be_interrupted`, a signal ends them with EINTR, as in the kernel.
void block_calls(const std::string& name, bool can_be_interrupted);
/// Number of blocked calls.
unsigned held_calls();
void release_calls();

/// Restores the initial state. Requires that all objects are destroyed.
void reset();

}  // namespace rdmawire::agent::fake_verbs
