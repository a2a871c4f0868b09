#ifndef IDEMPOTENCY_SERVER_CONSOLE_SAFEGUARDS_H_
#define IDEMPOTENCY_SERVER_CONSOLE_SAFEGUARDS_H_

#include "absl/status/status.h"

#include "server/access/access_control.h"
#include "server/console/http_message.h"

namespace idempotency::internal {

// The console's protection from pages of others, in the browser of an operator. Thread-safe.

// Adds the headers that every response has, also a refusal.
void AddSafeguards(HttpResponse& response);

// OK if a call came from the console's own page, or from no page. A browser adds a caller's
// certificate, and its place on this machine, to the requests of any page. `access` is what the
// call is checked against behind this.
absl::Status CheckSender(const HttpRequest& request, const AccessControl& access);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_CONSOLE_SAFEGUARDS_H_
