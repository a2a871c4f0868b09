#ifndef IDEMPOTENCY_SERVER_STORE_FACTORY_H_
#define IDEMPOTENCY_SERVER_STORE_FACTORY_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"

#include "server/observer.h"
#include "server/store/postgres_options.h"
#include "server/store/store.h"
#include "server/store_address.h"

namespace idempotency::internal {

struct OpenedStore {
  std::unique_ptr<Store> store;
  // The state of its pool; nullptr if it has none. Valid as long as the store.
  std::function<StoreConnections()> connections;
};

// What is done about a Postgres schema before it is used.
enum class SchemaPolicy {
  // It must have the version of this build.
  kCheck,
  // It is brought to that version.
  kMigrate,
};

// Opens the store at an address and checks that this build can serve it.
//   INVALID_ARGUMENT, FAILED_PRECONDITION
//                 It cannot be used until somebody does what the message says:
//                 migrate it, mend the path or its permissions, use the build
//                 that fits.
//   Other errors  It cannot be reached now (Postgres): try again.
// `connections` is for Postgres: how many calls of the service it answers at a
// time. Two more are opened, for sweeping and for inspections, which must not
// wait for calls: a busy store would look like one that is away.
absl::StatusOr<OpenedStore> OpenStore(const StoreAddress& address, int connections,
                                      SchemaPolicy schema);

// False for an error after which nothing but somebody's work on the store makes
// it usable.
bool MayRecover(const absl::Status& status);

// How to reach the Postgres at an address.
PostgresOptions PostgresOptionsFor(const StoreAddress& address);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_FACTORY_H_
