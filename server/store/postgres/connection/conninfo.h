#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_CONNECTION_CONNINFO_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_CONNECTION_CONNINFO_H_

#include <string>

#include "absl/status/statusor.h"

#include "server/store/postgres/options.h"

namespace idempotency::internal {

// The connection string of one connection: this program's defaults, the URL's
// settings, and the settings that the store requires. INVALID_ARGUMENT for a URL
// that libpq cannot parse; the message does not quote it, since it may hold a
// password.
absl::StatusOr<std::string> PostgresConninfo(const PostgresOptions& options);

// Whether libpq checks the name and the authority of the server's certificate: sslmode=verify-full,
// in the URL or in the environment.
bool VerifiesServer(const std::string& url);

// Whether libpq gets several servers, of which it uses the one that accepts writes: a list in host
// or hostaddr, of the URL or of the environment.
bool NamesSeveralServers(const std::string& url);

// The schema that a URL selects, by `options=-c search_path=NAME` (in a URL, with the
// blank as %20 and the "=" as %3D); "" if it selects none. Unchanged:
// ValidatePostgresOptions refuses anything but a single plain name.
std::string SchemaInUrl(const std::string& url);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_CONNECTION_CONNINFO_H_
