#ifndef IDEMPOTENCY_SERVER_CONSOLE_TESTING_CONSOLE_SERVICE_H_
#define IDEMPOTENCY_SERVER_CONSOLE_TESTING_CONSOLE_SERVICE_H_

#include <prometheus/registry.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "core/testing/manual_clock.h"
#include "server/access/access_control.h"
#include "server/access/access_policy.h"
#include "server/console/console_api.h"
#include "server/console/http_message.h"
#include "server/observability/observer.h"
#include "server/operation/administration.h"
#include "server/queue/admin_worker.h"
#include "server/queue/batcher.h"
#include "server/queue/in_flight_waiters.h"
#include "server/store/memory/memory_store.h"
#include "server/store/testing/operations.h"
#include "server/tenants/tenants.h"
#include "server/testing/gated_store.h"

namespace idempotency::internal {

// One response, on any thread.
class AwaitedResponse {
 public:
  HttpReply Sink() {
    return
        [answered = answered_](HttpResponse response) { answered->set_value(std::move(response)); };
  }
  // Waits up to 20 s.
  HttpResponse Await() {
    std::future<HttpResponse> response = answered_->get_future();
    if (response.wait_for(std::chrono::seconds(20)) == std::future_status::ready) {
      return response.get();
    }
    HttpResponse none;
    none.status = 0;
    return none;
  }

 private:
  const std::shared_ptr<std::promise<HttpResponse>> answered_ =
      std::make_shared<std::promise<HttpResponse>>();
};

// Counts the refusals of callers. Thread-safe.
class RefusalObserver final : public Observer {
 public:
  void CallerRefused(const RefusedCaller& /*caller*/) override { ++refused_; }
  int refused() const { return refused_; }

 private:
  std::atomic<int> refused_{0};
};

// The parts of a service that a console needs, with four callers, each by its token: "reader" may
// read the namespace payments, "admin" may also settle and purge there, "auditor" may read every
// namespace, "stranger" may do nothing.
class ConsoleService {
 public:
  ConsoleService() {
    AccessRules rules;
    for (const char* name : {"reader", "admin", "stranger", "auditor"}) {
      AccessRules::Identity& identity = rules.identities.emplace_back();
      identity.name = name;
      identity.token_digests = {Sha256(identity.name)};
    }
    Permissions read;
    read.Add(Permission::kRead);
    Permissions all = read;
    all.Add(Permission::kAdmin);
    rules.rules = {{"reader", {"payments"}, read},
                   {"admin", {"payments"}, all},
                   {"auditor", {std::string(kEveryNamespace)}, read}};
    access_.Restrict(std::make_shared<AccessPolicy>(std::move(rules)), clock_);
  }
  ~ConsoleService() {
    waiters_.Close();
    worker_.Close();
    batcher_.Close();
  }

  ConsoleApi::Service parts() { return parts(access_); }
  // The same with the callers of `access`, which outlives it.
  ConsoleApi::Service parts(const AccessControl& access) {
    return {administration_, worker_, batcher_.budget(), access, tenants_, registry_, clock_};
  }
  static Credentials Of(const std::string& name) {
    Credentials credentials;
    credentials.token = name;
    return credentials;
  }

  // A record whose outcome is unknown; its id.
  std::string Unknown(const std::string& key, const std::string& name_space = "payments") {
    ReserveOp op;
    op.key = {name_space, "tenant-1", "/payments.v1.Payments/Charge", key};
    op.id = RecordIdFor(op.key);
    op.fingerprints = {{1, std::string(32, 'a')}};
    const auto verdict = store_.Reserve({&op, 1}).at(0);
    const ReleaseOp release{op.key, op.id, std::get<Reserved>(*verdict).token, "",
                            /*outcome_unknown=*/true};
    store_.Release({&release, 1});
    return op.id.ToString();
  }

  // What the console reads and writes.
  GatedStore& store() { return gated_; }
  MemoryBudget& budget() { return batcher_.budget(); }
  AdminWorker& worker() { return worker_; }
  // The number of refusals that were reported.
  int refused() const { return observer_.refused(); }
  Tenants& tenants() { return tenants_; }
  prometheus::Registry& registry() { return *registry_; }

 private:
  ManualClock clock_;
  MemoryStore store_{clock_};
  GatedStore gated_{store_};
  RefusalObserver observer_;
  Batcher batcher_{store_, observer_};
  InFlightWaiters waiters_{batcher_, observer_};
  Administration administration_{gated_, gated_, waiters_, observer_};
  AdminWorker worker_;
  AccessControl access_;
  Tenants tenants_{observer_};
  std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_CONSOLE_TESTING_CONSOLE_SERVICE_H_
