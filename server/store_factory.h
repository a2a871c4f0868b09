#ifndef IDEMPOTENCY_SERVER_STORE_FACTORY_H_
#define IDEMPOTENCY_SERVER_STORE_FACTORY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "server/store/store.h"
#include "server/store_address.h"

namespace idempotency {

// Opens the store at an address and checks that this build can serve it.
//   UNAVAILABLE   It cannot be reached now (Postgres): try again.
//   Other errors  It cannot be used until somebody does what the message says:
//                 migrate it, mend the path or its permissions, use the build
//                 that fits.
// `connections` is for Postgres.
absl::StatusOr<std::unique_ptr<Store>> OpenStore(const StoreAddress& address, int connections);

}  // namespace idempotency

#endif  // IDEMPOTENCY_SERVER_STORE_FACTORY_H_
