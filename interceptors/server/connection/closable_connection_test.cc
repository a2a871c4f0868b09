#include "interceptors/server/connection/closable_connection.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <variant>
#include <vector>

#include "client/testing/scripted_connection.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal {
namespace {

// The calls of the inner connection.
struct Seen {
  std::vector<std::string> calls;
  // Called inside of Reserve.
  std::function<void()> inside = [] {};
  std::atomic<bool> destroyed{false};
};

std::unique_ptr<Connection> MakeInnerConnection(Seen& seen) {
  // Destroyed with the connection.
  const std::shared_ptr<void> life(nullptr, [&seen](void*) { seen.destroyed = true; });
  return std::make_unique<ScriptedConnection>([&seen, life](AnyConnectionCall call,
                                                            Connection::Deadline /*deadline*/) {
    static constexpr std::array kNames = {"Reserve", "Complete", "Release", "Extend", "Get"};
    if (call.index() == 0) seen.inside();
    seen.calls.emplace_back(kNames.at(call.index()));
    std::visit([](auto& typed) { typed.done(typename std::decay_t<decltype(typed)>::Response()); },
               call);
  });
}

class ClosableConnectionTest : public testing::Test {
 protected:
  template <typename Request, typename Response>
  absl::Status Call(void (Connection::*method)(const Request&, Connection::Deadline,
                                               Connection::Callback<Response>)) {
    absl::Status status = absl::UnknownError("not answered");
    (static_cast<Connection&>(connection_).*method)(
        Request(), Connection::Deadline::max(),
        [&status](absl::StatusOr<Response> answer) { status = answer.status(); });
    return status;
  }
  std::vector<absl::Status> CallAll() {
    return {Call(&Connection::Reserve), Call(&Connection::Complete), Call(&Connection::Release),
            Call(&Connection::Extend), Call(&Connection::Get)};
  }

  Seen seen_;
  ClosableConnection connection_{MakeInnerConnection(seen_)};
};

TEST_F(ClosableConnectionTest, CallsArePassedOn) {
  for (const absl::Status& status : CallAll()) EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(seen_.calls,
            (std::vector<std::string>{"Reserve", "Complete", "Release", "Extend", "Get"}));
  EXPECT_FALSE(seen_.destroyed);
}

TEST_F(ClosableConnectionTest, OnceClosedThereIsNoConnectionAndCallsAreAnsweredHere) {
  connection_.Close();
  EXPECT_TRUE(seen_.destroyed);
  for (const absl::Status& status : CallAll()) {
    EXPECT_EQ(ReasonOf(status), Reason::kStoreUnavailable) << status;
  }
  EXPECT_TRUE(seen_.calls.empty());
  connection_.Close();
}

TEST_F(ClosableConnectionTest, ClosingWaitsForTheCallsThatAreInside) {
  std::promise<void> entered;
  std::promise<void> leave;
  bool destroyed_under_it = true;
  seen_.inside = [&] {
    entered.set_value();
    leave.get_future().wait();
    destroyed_under_it = seen_.destroyed;
  };
  std::thread caller([&] { EXPECT_TRUE(Call(&Connection::Reserve).ok()); });
  entered.get_future().wait();
  std::thread closer([&] { connection_.Close(); });
  // From here on it has received the call inside.
  while (Call(&Connection::Get).ok()) std::this_thread::yield();
  leave.set_value();
  caller.join();
  closer.join();
  EXPECT_FALSE(destroyed_under_it);
  EXPECT_TRUE(seen_.destroyed);
}

}  // namespace
}  // namespace idempotency::internal
