#ifndef IDEMPOTENCY_EXAMPLES_COMPLETION_QUEUE_CHARGE_CALL_H_
#define IDEMPOTENCY_EXAMPLES_COMPLETION_QUEUE_CHARGE_CALL_H_

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <functional>

#include "absl/status/statusor.h"

#include "examples/payments/payments.grpc.pb.h"
#include "grpc_idempotency/server_guard/server_guard.h"

namespace completion_queue {

// Charges an account; may block. Called on the queue's threads.
using Charge = std::function<grpc::Status(idempotency::Execution& execution,
                                          const payments::v1::ChargeRequest& request,
                                          payments::v1::ChargeReply* reply)>;

// The objects that every call of the server uses. Outlives the server.
struct ChargeServer {
  idempotency::ServerGuard& guard;
  payments::v1::Payments::AsyncService& service;
  grpc::ServerCompletionQueue& queue;
  const Charge& charge;
};

// One call of Charge on a server of gRPC's completion-queue API, which the guard's Protect cannot
// guard: it calls Begin itself, and does not block, so that a few threads serve any number of
// calls. It is its own tag, and is deleted after its last event. Thread-compatible: one event at a
// time.
class ChargeCall {
 public:
  // Waits for the next call of a client.
  static void Expect(const ChargeServer& server);

  // Passes the next event of the queue to its call. False once the queue is shut down and drained.
  static bool HandleNext(grpc::ServerCompletionQueue& queue);

 private:
  enum class Awaiting { kClient, kVerdict, kSent };

  explicit ChargeCall(const ChargeServer& server);

  void Handle(bool ok);
  void Begin();
  void OnVerdict();
  void Run();
  void Refuse(const absl::Status& why);
  void AnswerUnrecorded(const grpc::Status& status);
  void Answer(const grpc::Status& status);

  const ChargeServer server_;
  Awaiting awaiting_ = Awaiting::kClient;
  grpc::ServerContext context_;
  grpc::ServerAsyncResponseWriter<payments::v1::ChargeReply> writer_;
  grpc::Alarm verdict_is_here_;
  payments::v1::ChargeRequest request_;
  payments::v1::ChargeReply reply_;
  absl::StatusOr<idempotency::BegunOperation> begun_;
};

}  // namespace completion_queue

#endif  // IDEMPOTENCY_EXAMPLES_COMPLETION_QUEUE_CHARGE_CALL_H_
