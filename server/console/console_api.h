#ifndef IDEMPOTENCY_SERVER_CONSOLE_CONSOLE_API_H_
#define IDEMPOTENCY_SERVER_CONSOLE_CONSOLE_API_H_

#include <prometheus/registry.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "core/clock.h"
#include "server/access/access_control.h"
#include "server/access/permission.h"
#include "server/console/http_message.h"
#include "server/operation/administration.h"
#include "server/queue/admin_worker.h"
#include "server/queue/memory_budget.h"
#include "server/tenants/tenants.h"

namespace idempotency::internal {

// The calls of the console's page: those of IdempotencyAdminService, with their rules, and two of
// its own, all in protobuf's JSON mapping with the protos' field names. Thread-safe.
class ConsoleApi {
 public:
  // All of them outlive this, and every call.
  struct Service {
    Administration& administration;
    AdminWorker& worker;
    MemoryBudget& budget;
    const AccessControl& access;
    const Tenants& tenants;
    std::shared_ptr<const prometheus::Registry> metrics;
    const Clock& clock = Clock::System();
  };

  explicit ConsoleApi(Service service) : service_(std::move(service)) {}

  // Calls `reply` once: with 200 and the answer, or with the error's HTTP status and an
  // idempotency.console.v1.ErrorResponse.
  //   Overview, Explain, List   Permission::kRead
  //   Resolve, Purge, ListAudit Permission::kAdmin
  void Call(std::string_view method, const std::string& body, Credentials credentials,
            const HttpReply& reply) const;

 private:
  template <typename Request, typename Response>
  using Method =
      std::function<absl::StatusOr<Response>(const Request&, const AdminCaller&, Caller&)>;

  // Runs the method on the administrators' worker.
  template <typename Request, typename Response>
  void Run(const std::string& body, Credentials credentials, Permission permission,
           Method<Request, Response> method, const HttpReply& reply) const;
  void Overview(Credentials credentials, const HttpReply& reply) const;

  const Service service_;
};

// The answer to a request that failed.
HttpResponse ErrorAnswer(const absl::Status& status);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_CONSOLE_CONSOLE_API_H_
