// The handlers of docs/ledger.md and docs/recovery.md in a call that the guard passes through.
#include <grpcpp/server_context.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <pqxx/pqxx>
#include <string>

#include "examples/payments/payments.pb.h"
#include "examples/readme/bank.h"
#include "tests/support/postgres_cluster.h"

grpc::Status Charge(grpc::ServerContextBase* context, const payments::v1::ChargeRequest& request,
                    payments::v1::ChargeReply* reply, pqxx::connection& database);
grpc::Status Charge(grpc::ServerContextBase* context, const payments::v1::ChargeRequest& request,
                    payments::v1::ChargeReply* reply, Bank& bank);

namespace idempotency::internal {
namespace {

class PaidBank final : public Bank {
 public:
  grpc::Status Pay(const std::string& key, std::int64_t cents) override {
    last_key = key;
    total_cents += cents;
    return grpc::Status::OK;
  }
  std::optional<bool> CancelUnlessPaid(const std::string& /*key*/) override { return std::nullopt; }

  std::string last_key;
  std::int64_t total_cents = 0;
};

TEST(UnguardedChargeTest, ThatOfTheLedgerCommitsWithoutARow) {
  const std::string url = testing::PostgresCluster::Shared().NewDatabase();
  testing::ExecuteSql(url, "CREATE TABLE public.charges (id text PRIMARY KEY, cents bigint)");
  pqxx::connection database(url);
  grpc::ServerContext context;
  payments::v1::ChargeRequest request;
  request.set_amount_cents(500);
  payments::v1::ChargeReply reply;
  EXPECT_TRUE(Charge(&context, request, &reply, database).ok());
  EXPECT_EQ(
      pqxx::work(database).exec1("SELECT id FROM charges WHERE cents = 500")[0].as<std::string>(),
      reply.charge_id());
  request.set_amount_cents(2'000'000);
  EXPECT_EQ(Charge(&context, request, &reply, database).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
}

TEST(UnguardedChargeTest, ThatOfTheRecoveryPaysUnderAKeyOfItsOwn) {
  PaidBank bank;
  grpc::ServerContext context;
  payments::v1::ChargeRequest request;
  request.set_amount_cents(500);
  payments::v1::ChargeReply reply;
  EXPECT_TRUE(Charge(&context, request, &reply, bank).ok());
  const std::string first = bank.last_key;
  EXPECT_TRUE(Charge(&context, request, &reply, bank).ok());
  EXPECT_EQ(bank.total_cents, 1'000);
  EXPECT_NE(bank.last_key, first);
  EXPECT_EQ(reply.charge_id(), bank.last_key);
}

}  // namespace
}  // namespace idempotency::internal
