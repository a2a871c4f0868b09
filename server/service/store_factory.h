#ifndef IDEMPOTENCY_SERVER_SERVICE_STORE_FACTORY_H_
#define IDEMPOTENCY_SERVER_SERVICE_STORE_FACTORY_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"

#include "server/observability/events.h"
#include "server/service/store_address.h"
#include "server/store/postgres/options.h"
#include "server/store/store.h"

namespace idempotency::internal {

struct OpenedStore {
  std::unique_ptr<Store> store;
  // The state of its pool; nullptr for a store without a pool. Valid as long as
  // the store.
  std::function<StoreConnections()> connections;
};

// How a Postgres schema is prepared before it is used. The other stores ignore it.
enum class SchemaPolicy {
  // It must have the version of this build.
  kCheck,
  // It is migrated to that version.
  kMigrate,
  // As kCheck; the store is only read, and its server need not accept writes.
  kRead,
};

// Opens the store at an address and checks that this build can serve it.
//   INVALID_ARGUMENT, FAILED_PRECONDITION
//                 It cannot be used until an operator follows the message:
//                 migrate it, correct the path or its permissions, use the
//                 matching build.
//   Other errors  It cannot be reached now (Postgres, Redis): try again.
// `connections` is for Postgres and Redis: the number of concurrent calls. Three more
// may be opened, for sweeping, for inspections, which must not wait for calls
// (otherwise a busy store would appear unavailable), and for administrators.
absl::StatusOr<OpenedStore> OpenStore(const StoreAddress& address, int connections,
                                      SchemaPolicy schema);

// False for an error that only an operator's work on the store can fix.
bool MayRecover(const absl::Status& status);

// How to reach the Postgres at an address.
PostgresOptions PostgresOptionsFor(const StoreAddress& address);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SERVICE_STORE_FACTORY_H_
