#ifndef IDEMPOTENCY_SERVER_STORE_STORE_H_
#define IDEMPOTENCY_SERVER_STORE_STORE_H_

#include "server/store/admin_store.h"
#include "server/store/maintenance_store.h"
#include "server/store/record_store.h"

namespace idempotency::internal {

// The storage of records, in the three roles in which it is used. A caller names the one that it
// needs. Every implementation decides by the table of states and verdicts in docs/states.md,
// atomically and by its own clock, and passes one conformance suite (tests/conformance).
class Store : public RecordStore, public MaintenanceStore, public AdminStore {};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_STORE_H_
