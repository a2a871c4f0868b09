// An order of three steps whose first attempt crashes at each of them in turn. The servers and
// idempotencyd are real processes.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "examples/checkout/book.h"
#include "examples/checkout/checkout.grpc.pb.h"
#include "grpc_idempotency/client/call_with_retries.h"
#include "grpc_idempotency/client/pinned_key.h"
#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/idempotency_key.h"
#include "tests/support/daemon_process.h"
#include "tests/support/held_port.h"
#include "tests/support/process.h"
#include "tests/support/service_client.h"
#include "tests/support/temp_folder.h"

namespace checkout {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

const std::string kKey = "order-of-monday-1";

// The server that crashes, and the point.
struct Death {
  std::string role;
  std::string point;
  // How often the step's handler began in all: more than once only for the server that crashed, and
  // for the order, which has several attempts.
  int payment_runs;
  int inventory_runs;
};

std::string NameOf(const Death& death) {
  std::string name = death.role + "_" + death.point;
  for (char& c : name) {
    if (c == '-') c = '_';
  }
  return name;
}
void PrintTo(const Death& death, std::ostream* out) { *out << NameOf(death); }

class CheckoutTest : public ::testing::Test {
 protected:
  // On the same port each time.
  void Start(const std::string& role, const std::string& die_at = "",
             const std::string& not_sold = "") {
    std::vector<std::string> arguments = {"checkout_server",
                                          "--role=" + role,
                                          "--book=" + BookOf(role),
                                          "--idempotencyd=" + daemon_.address(),
                                          "--lease=700ms",
                                          "--die_at=" + die_at,
                                          "--not_sold=" + not_sold,
                                          "--listen=" + At(role),
                                          "--payment=" + At("payment"),
                                          "--inventory=" + At("inventory")};
    auto process = idempotency::internal::testing::Process::Start(std::move(arguments));
    ASSERT_TRUE(process.ok()) << process.status();
    processes_[role] = *std::move(process);
    const std::string prefix = role + ": serving on ";
    const auto line = processes_[role]->WaitForLine(prefix);
    ASSERT_TRUE(line.ok()) << line.status();
  }
  const std::string& At(const std::string& role) { return ports_[role].address(); }
  std::string BookOf(const std::string& role) { return folder_.File(role + ".sqlite"); }

  // True if it crashed at the requested point.
  bool Died(const std::string& role) {
    const auto exit = processes_[role]->Wait();
    return exit.ok() && exit->signal == SIGKILL;
  }

  grpc::Status Place(grpc::ClientContext& context, v1::PlaceReply& reply) {
    const auto stub =
        v1::Orders::NewStub(grpc::CreateChannel(At("order"), grpc::InsecureChannelCredentials()));
    v1::PlaceRequest request;
    request.set_item("kettle");
    request.set_quantity(2);
    request.set_price_cents(1250);
    return stub->Place(&context, request, &reply);
  }
  grpc::Status PlaceUntilSettled(v1::PlaceReply& reply, const std::string& key = kKey) {
    return idempotency::CallWithRetries(
        key, idempotency::DeadlineIn(absl::Seconds(30)), [&](grpc::ClientContext& context) {
          context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
          return Place(context, reply);
        });
  }

  std::vector<Book::Entry> Runs(const std::string& role) {
    return Book::Open(BookOf(role)).value()->Runs().value();
  }
  // The record of the only effect.
  std::string OnlyEffect(const std::string& role) {
    const auto effects = Book::Open(BookOf(role)).value()->Effects().value();
    EXPECT_THAT(effects, SizeIs(1)) << role;
    return effects.empty() ? "" : effects[0].record_id;
  }
  idempotency::v1::Record RecordOf(const std::string& record_id) {
    idempotency::v1::GetRequest request;
    request.set_record_id(record_id);
    const auto response =
        idempotency::internal::testing::ServiceClient(daemon_.address()).Call(request);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? response->record() : idempotency::v1::Record();
  }

  idempotency::internal::testing::TempFolder folder_;
  idempotency::internal::testing::DaemonProcess daemon_{"sqlite:" + folder_.File("records.sqlite")};
  std::map<std::string, idempotency::internal::testing::HeldPort> ports_;
  std::map<std::string, std::unique_ptr<idempotency::internal::testing::Process>> processes_;
};

class CrashTest : public CheckoutTest, public ::testing::WithParamInterface<Death> {};

TEST_P(CrashTest, TheSameKeyResumesACrashedOrder) {
  const Death& death = GetParam();
  for (const std::string role : {"payment", "inventory", "order"}) {
    ASSERT_NO_FATAL_FAILURE(Start(role, role == death.role ? death.point : ""));
  }
  v1::PlaceReply reply;
  grpc::ClientContext first;
  first.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  ASSERT_TRUE(idempotency::WithKey(first, kKey).ok());
  EXPECT_EQ(Place(first, reply).error_code(), grpc::StatusCode::UNAVAILABLE);
  ASSERT_TRUE(Died(death.role));
  ASSERT_NO_FATAL_FAILURE(Start(death.role));

  const grpc::Status resumed = PlaceUntilSettled(reply);
  ASSERT_TRUE(resumed.ok()) << resumed.error_message();

  // Every step has one effect, and a finished one did not run again.
  EXPECT_EQ(OnlyEffect("order"), reply.order_id());
  EXPECT_EQ(OnlyEffect("payment"), reply.payment_id());
  EXPECT_EQ(OnlyEffect("inventory"), reply.picking_id());
  EXPECT_THAT(Runs("payment"), SizeIs(death.payment_runs));
  EXPECT_THAT(Runs("inventory"), SizeIs(death.inventory_runs));
  const std::size_t order_runs = Runs("order").size();
  EXPECT_GE(order_runs, 2u);

  // The steps name the order's record, and no data of the customer's.
  for (const std::string& step : {reply.payment_id(), reply.picking_id()}) {
    const auto record = RecordOf(step);
    EXPECT_EQ(record.parent().key(), reply.order_id());
    EXPECT_EQ(record.parent().operation(), "/checkout.v1.Orders/Place");
    EXPECT_EQ(record.parent().namespace_(), "checkout-order");
    EXPECT_THAT(record.DebugString(), Not(HasSubstr(kKey)));
  }
  EXPECT_EQ(RecordOf(reply.order_id()).record_key().key(), kKey);

  // Once more: a replay of the whole.
  v1::PlaceReply again;
  grpc::ClientContext replay;
  ASSERT_TRUE(idempotency::WithKey(replay, kKey).ok());
  ASSERT_TRUE(Place(replay, again).ok());
  EXPECT_EQ(again.SerializeAsString(), reply.SerializeAsString());
  EXPECT_EQ(replay.GetServerTrailingMetadata().count(
                {idempotency::kReplayedMetadata.data(), idempotency::kReplayedMetadata.size()}),
            1u);
  EXPECT_THAT(Runs("order"), SizeIs(order_runs));
}

// A step's recorded refusal is the order's end, and its money goes back once.
TEST_F(CheckoutTest, ARefusedStepEndsTheOrderAndItsPaymentIsRefundedOnce) {
  for (const std::string point : {"before-refund", "before-refusal"}) {
    ASSERT_NO_FATAL_FAILURE(Start("payment"));
    ASSERT_NO_FATAL_FAILURE(Start("inventory", "", "kettle"));
    ASSERT_NO_FATAL_FAILURE(Start("order", point));
    v1::PlaceReply reply;
    grpc::ClientContext first;
    ASSERT_TRUE(idempotency::WithKey(first, kKey + point).ok());
    EXPECT_EQ(Place(first, reply).error_code(), grpc::StatusCode::UNAVAILABLE);
    ASSERT_TRUE(Died("order"));
    ASSERT_NO_FATAL_FAILURE(Start("order"));

    for (int repeat = 0; repeat < 2; ++repeat) {
      const grpc::Status ended = PlaceUntilSettled(reply, kKey + point);
      EXPECT_EQ(ended.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
      EXPECT_THAT(ended.error_message(), HasSubstr("kettle is not sold any more"));
    }
    for (const std::string role : {"payment", "inventory", "order"}) processes_.erase(role);
  }
  const auto payments = Book::Open(BookOf("payment")).value()->Effects().value();
  ASSERT_THAT(payments, SizeIs(4));
  for (const std::size_t charge : {0, 2}) {
    EXPECT_THAT(payments[charge].text, HasSubstr("2500 cents"));
    EXPECT_EQ(payments[charge + 1].text, "refund of " + payments[charge].record_id);
  }
  EXPECT_THAT(Book::Open(BookOf("inventory")).value()->Effects().value(), SizeIs(0));
  EXPECT_THAT(Book::Open(BookOf("order")).value()->Effects().value(), SizeIs(0));
}

TEST_F(CheckoutTest, APaymentIsRefundedOnceWhateverTheKey) {
  ASSERT_NO_FATAL_FAILURE(Start("payment"));
  const auto stub =
      v1::Payments::NewStub(grpc::CreateChannel(At("payment"), grpc::InsecureChannelCredentials()));
  v1::ChargeRequest charge;
  charge.set_amount_cents(500);
  v1::ChargeReply charged;
  grpc::ClientContext charging;
  ASSERT_TRUE(idempotency::WithKey(charging, kKey).ok());
  ASSERT_TRUE(stub->Charge(&charging, charge, &charged).ok());

  const auto refund = [&](const std::string& key, const std::string& payment_id,
                          v1::RefundReply& reply) {
    v1::RefundRequest request;
    request.set_payment_id(payment_id);
    grpc::ClientContext context;
    EXPECT_TRUE(idempotency::WithKey(context, key).ok());
    return stub->Refund(&context, request, &reply).error_code();
  };
  v1::RefundReply first;
  v1::RefundReply second;
  EXPECT_EQ(refund("a", charged.payment_id(), first), grpc::StatusCode::OK);
  EXPECT_EQ(refund("b", charged.payment_id(), second), grpc::StatusCode::OK);
  EXPECT_EQ(second.refund_id(), first.refund_id());
  EXPECT_EQ(refund("c", "no-payment", second), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(refund("d", first.refund_id(), second), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(Book::Open(BookOf("payment")).value()->Effects().value(), SizeIs(2));
}

INSTANTIATE_TEST_SUITE_P(EveryStep, CrashTest,
                         ::testing::Values(Death{"order", "before-payment", 1, 1},
                                           Death{"order", "before-inventory", 1, 1},
                                           Death{"order", "before-order", 1, 1},
                                           Death{"order", "before-reply", 1, 1},
                                           Death{"payment", "before-effect", 2, 1},
                                           Death{"payment", "before-reply", 2, 1},
                                           Death{"inventory", "before-effect", 1, 2},
                                           Death{"inventory", "before-reply", 1, 2}),
                         [](const auto& death) { return NameOf(death.param); });

}  // namespace
}  // namespace checkout
