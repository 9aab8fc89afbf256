#pragma once
/// Validation of every FPDU and every negotiation frame that the tester receives in any case, stated from
/// the clauses and without the monitors. TCP discards segments with a wrong checksum, so the checks start with MPA.

#include <vector>

#include "conformance/cases/iwarp/seen.hpp"
#include "conformance/cases/wire_violation.hpp"

namespace rdmawire::conformance::iwarp {

/// Checks CRC, pad, versions, reserved bits and buffer model of an FPDU. The version of the RDMA Consortium, 0, is
/// accepted, because the case may negotiate it.
std::vector<WireViolation> check_fpdu(const Seen& fpdu);
/// Checks key, reserved bits and length of a negotiation frame. `device_initiates`: it has to be a request.
std::vector<WireViolation> check_setup(const Seen& setup, bool device_initiates);

}  // namespace rdmawire::conformance::iwarp
