#pragma once
/// Stands in for libibverbs in tests: defines the ibv_* symbols that the agent uses, on one device whose queue pairs
/// reach each other. Like the kernel it refuses to destroy what is still used; what no caller may do (use after
/// destruction, closing a device that is still used, an event that was never acknowledged) aborts. Calls may come from
/// several threads.

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace rdmawire::agent::fake_verbs {

inline constexpr const char* device_name = "fake0";

/// How many objects of verbs there are: opened devices and lists of devices too.
std::size_t alive();

/// The nth call of verbs from now on (1: the next) fails with that errno, and no other. 0: none.
void fail_call(unsigned nth, int number);
/// From now on, until reset(), calls that release something neither fail nor count.
void spare_releases();
/// Calls that could have failed, since fail_call().
unsigned calls();
/// The name of the call that failed; empty: none did.
std::string failed_call();

/// Whether there is a device at all, from the next list on.
void plug(bool present);
/// The directory that stands for /sys/class/infiniband/fake0.
void set_sysfs(const std::string& path);

/// An event of port 1 on every opened device.
void raise_port_event(ibv_event_type type);
/// An event of a queue pair.
void raise_qp_event(std::uint32_t qp_num, ibv_event_type type);

/// From now on calls of that name (ibv_create_ah, ibv_modify_qp, rdma_connect) do not begin until release_calls(). A
/// signal makes those that can be interrupted fail with EINTR, as it does with what the kernel waits for.
void block_calls(const std::string& name, bool can_be_interrupted);
/// How many are held up.
unsigned held_calls();
void release_calls();

/// As at first. Objects must be gone.
void reset();

}  // namespace rdmawire::agent::fake_verbs
