#ifndef IDEMPOTENCY_TESTS_SIMULATION_STREAM_WIRE_H_
#define IDEMPOTENCY_TESTS_SIMULATION_STREAM_WIRE_H_

#include "client/connection/session_stream.h"
#include "tests/simulation/daemons.h"
#include "tests/simulation/network.h"

namespace idempotency::internal::simulation {

// Session streams over the simulated network: frames arrive in order or not at all. A stream breaks
// (each end detects it at its own time) by a draw or when one of its processes ends; during a
// partition its frames wait. The daemon's end has the real SessionCall.
SessionStreamFactory StreamsOver(Network& network, Daemons& daemons, Process& client,
                                 const Plan& plan);

}  // namespace idempotency::internal::simulation

#endif  // IDEMPOTENCY_TESTS_SIMULATION_STREAM_WIRE_H_
