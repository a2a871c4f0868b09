#ifndef IDEMPOTENCY_TESTS_INTEGRATION_GUARD_FIXTURE_H_
#define IDEMPOTENCY_TESTS_INTEGRATION_GUARD_FIXTURE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "grpc_idempotency/embedded/embedded_service.h"
#include "tests/support/daemon_process.h"
#include "tests/support/probe_client.h"
#include "tests/support/probe_server.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal::testing {

// The service that answers the guards: a real idempotencyd, or one embedded in this process.
enum class Idempotencyd { kSqlite, kEmbeddedSqlite, kEmbeddedPostgres };

// The environment of a test of guards.
struct GuardSetup {
  // NOLINTNEXTLINE(google-explicit-constructor): most suites differ in the API alone
  GuardSetup(Api in_api, Idempotencyd over = Idempotencyd::kSqlite)
      : api(in_api), idempotencyd(over) {}
  operator Api() const { return api; }  // NOLINT(google-explicit-constructor)

  Api api;
  Idempotencyd idempotencyd;
};
std::string NameOf(const GuardSetup& setup);

// Every API over a real idempotencyd; the first one also over an embedded service on SQLite, the
// last one over one on Postgres. Not each over each: the differences between the stores have a
// suite of their own (tests/conformance).
std::vector<GuardSetup> OverEveryIdempotencyd(const std::vector<Api>& apis);

// A fresh idempotencyd, as the test's parameter requires, and guarded servers in the parameter's
// API.
class GuardFixture : public ::testing::TestWithParam<GuardSetup> {
 protected:
  GuardFixture();

  // Replaces the server of an earlier call.
  ProbeServer& Serve(ProbeHandler handler,
                     const std::function<void(ProbeServer::Options&)>& change = nullptr);
  // The same, together with others.
  std::unique_ptr<ProbeServer> MakeServer(
      ProbeHandler handler, const std::function<void(ProbeServer::Options&)>& change = nullptr);

  // A handler that replies with the number of its runs.
  ProbeHandler Counting();

  // A call of Act with one key.
  static Call With(const std::string& key);

  // The record, with its reply.
  v1::Record Get(const std::string& record_id);

  std::atomic<int> runs_{0};
  std::shared_ptr<ConnectionGate> gate_ = std::make_shared<ConnectionGate>();
  TempFolder folder_;
  // One of the two.
  std::optional<DaemonProcess> daemon_;
  std::unique_ptr<EmbeddedService> embedded_;
  // To either.
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<ProbeServer> server_;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_INTEGRATION_GUARD_FIXTURE_H_
