#ifndef IDEMPOTENCY_TESTS_SIMULATION_STREAM_WIRE_H_
#define IDEMPOTENCY_TESTS_SIMULATION_STREAM_WIRE_H_

#include "client/connection/session_stream.h"
#include "tests/simulation/daemons.h"
#include "tests/simulation/network.h"

namespace idempotency::internal::simulation {

// Session streams over the simulated network: frames arrive in order or not at
// all. A stream breaks (each end learns of it in its own time) when the dice
// say so or when one of its processes dies; through a partition its frames wait.
// At the daemon's end stands the real SessionCall.
SessionStreamFactory StreamsOver(Network& network, Daemons& daemons, Process& client,
                                 const Plan& plan);

}  // namespace idempotency::internal::simulation

#endif  // IDEMPOTENCY_TESTS_SIMULATION_STREAM_WIRE_H_
