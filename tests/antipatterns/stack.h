#ifndef IDEMPOTENCY_TESTS_ANTIPATTERNS_STACK_H_
#define IDEMPOTENCY_TESTS_ANTIPATTERNS_STACK_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/api_name.h"
#include "tests/support/daemon_process.h"
#include "tests/support/probe_client.h"
#include "tests/support/probe_server.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal::testing {

// The real stack for one test: a real idempotencyd on SQLite, a guarded server,
// and a client; in gRPC's sync and callback API.
class AntiPattern : public ::testing::TestWithParam<Api> {
 protected:
  static constexpr char kAct[] = "/idempotency.testing.Probe/Act";

  // Starts a guarded server with this handler. `change` may change its options.
  ProbeServer& Serve(ProbeHandler handler,
                     const std::function<void(ProbeServer::Options&)>& change = nullptr) {
    ProbeServer::Options options;
    options.idempotencyd = daemon_.address();
    options.api = GetParam();
    options.handler = std::move(handler);
    if (change) change(options);
    servers_.push_back(std::make_unique<ProbeServer>(std::move(options)));
    return *servers_.back();
  }

  TempFolder folder_;
  DaemonProcess daemon_{"sqlite:" + folder_.File("records.db")};
  std::vector<std::unique_ptr<ProbeServer>> servers_;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_ANTIPATTERNS_STACK_H_
