#ifndef IDEMPOTENCY_SERVER_CONSOLE_CONSOLE_H_
#define IDEMPOTENCY_SERVER_CONSOLE_CONSOLE_H_

#include <utility>

#include "server/access/access_control.h"
#include "server/console/console_api.h"
#include "server/console/http_message.h"

namespace idempotency::internal {

// The console's page and its calls (docs/console.md). Thread-safe.
class Console {
 public:
  explicit Console(ConsoleApi::Service service)
      : access_(service.access), api_(std::move(service)) {}

  // An HttpHandler.
  void Answer(const HttpRequest& request, const HttpReply& reply) const;

 private:
  const AccessControl& access_;
  const ConsoleApi api_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_CONSOLE_CONSOLE_H_
