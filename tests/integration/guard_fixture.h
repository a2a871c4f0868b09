#ifndef IDEMPOTENCY_TESTS_INTEGRATION_GUARD_FIXTURE_H_
#define IDEMPOTENCY_TESTS_INTEGRATION_GUARD_FIXTURE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "tests/support/daemon_process.h"
#include "tests/support/guarded_server.h"
#include "tests/support/probe_client.h"
#include "tests/support/temp_folder.h"

namespace idempotency::testing {

// A real idempotencyd over SQLite, and guarded servers in the API of the
// test's parameter.
class GuardFixture : public ::testing::TestWithParam<Api> {
 protected:
  // Replaces the server of an earlier call.
  GuardedServer& Serve(ProbeHandler handler,
                       const std::function<void(GuardedServer::Options&)>& change = nullptr);
  // The same, beside others.
  std::unique_ptr<GuardedServer> MakeServer(
      ProbeHandler handler, const std::function<void(GuardedServer::Options&)>& change = nullptr);

  // A handler that answers with how often it has run.
  ProbeHandler Counting();

  // A call of Act with one key.
  static Call With(const std::string& key);

  // The record, with its reply.
  v1::Record Get(const std::string& record_id);

  std::atomic<int> runs_{0};
  std::shared_ptr<ConnectionGate> gate_ = std::make_shared<ConnectionGate>();
  TempFolder folder_;
  DaemonProcess daemon_{"sqlite:" + folder_.File("records.db")};
  std::unique_ptr<GuardedServer> server_;
};

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_TESTS_INTEGRATION_GUARD_FIXTURE_H_
