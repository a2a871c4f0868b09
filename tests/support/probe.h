#ifndef IDEMPOTENCY_TESTS_SUPPORT_PROBE_H_
#define IDEMPOTENCY_TESTS_SUPPORT_PROBE_H_

#include "tests/support/probe.grpc.pb.h"

namespace idempotency::internal::testing {

// Generated code is in the namespace of its proto package.
using ::idempotency::testing::ActReply;
using ::idempotency::testing::ActRequest;
using ::idempotency::testing::Probe;
using ::idempotency::testing::Twin;

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_PROBE_H_
