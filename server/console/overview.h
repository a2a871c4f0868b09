#ifndef IDEMPOTENCY_SERVER_CONSOLE_OVERVIEW_H_
#define IDEMPOTENCY_SERVER_CONSOLE_OVERVIEW_H_

#include <prometheus/registry.h>

#include "idempotency/console/v1/console.pb.h"

namespace idempotency::internal {

// Sets the fields of the overview that are metrics. What a registry does not have stays 0.
// Thread-safe.
void ReadMetrics(const prometheus::Registry& registry, console::v1::Overview& overview);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_CONSOLE_OVERVIEW_H_
