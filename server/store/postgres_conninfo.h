#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_CONNINFO_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_CONNINFO_H_

#include <string>

#include "absl/status/statusor.h"

#include "server/store/postgres_options.h"

namespace idempotency::internal {

// The connection string of one session: our defaults, what the URL says, and
// what the store cannot do without. INVALID_ARGUMENT for a URL that libpq cannot
// read; the message does not quote it, since it may hold a password.
absl::StatusOr<std::string> PostgresConninfo(const PostgresOptions& options);

// The schema that a URL asks for, by `options=-c search_path=NAME` (in a URL, with the
// blank as %20 and the "=" as %3D); "" if it asks for none. As it stands there:
// ValidatePostgresOptions refuses what is no single plain name.
std::string SchemaInUrl(const std::string& url);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_CONNINFO_H_
