#ifndef IDEMPOTENCY_EXAMPLES_PAYMENTS_PAYMENTS_SERVICE_H_
#define IDEMPOTENCY_EXAMPLES_PAYMENTS_PAYMENTS_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include "absl/time/time.h"

#include "examples/payments/ledger.h"
#include "examples/payments/payments.grpc.pb.h"

namespace payments {

// Ordinary handlers of the synchronous API. They work without the guard too, and then charge as
// often as they are called. From the guard they use the record id and the attempt for the ledger's
// entries, and a way to report that nothing happened.
//
// The guard promises: of the calls with one key, one runs at a time, and once its reply is recorded
// none runs again. It cannot promise: a process that crashes after the ledger's commit and before
// the reply is recorded leaves a record that looks like one that never started, and the next
// attempt takes the money again. A completion ledger closes that gap: one more row, with the record
// id as its primary key and the reply in it, inserted in the transaction that moves the money; the
// second attempt then fails on that row instead of charging, and returns the stored reply.
//
// Thread-safe.
class PaymentsService final : public v1::Payments::Service {
 public:
  // Does not own `ledger`. Charge waits for `charge_delay` before it moves the money, which gives a
  // demonstration time to kill the process.
  explicit PaymentsService(Ledger& ledger, absl::Duration charge_delay = absl::ZeroDuration());

  grpc::Status Charge(grpc::ServerContext* context, const v1::ChargeRequest* request,
                      v1::ChargeReply* reply) override;
  grpc::Status Refund(grpc::ServerContext* context, const v1::RefundRequest* request,
                      v1::RefundReply* reply) override;
  grpc::Status GetBalance(grpc::ServerContext* context, const v1::GetBalanceRequest* request,
                          v1::GetBalanceReply* reply) override;
  grpc::Status ListEntries(grpc::ServerContext* context, const v1::ListEntriesRequest* request,
                           v1::ListEntriesReply* reply) override;

 private:
  Ledger& ledger_;
  const absl::Duration charge_delay_;
};

}  // namespace payments

#endif  // IDEMPOTENCY_EXAMPLES_PAYMENTS_PAYMENTS_SERVICE_H_
