#ifndef IDEMPOTENCY_SERVER_IDEMPOTENCY_SERVICE_H_
#define IDEMPOTENCY_SERVER_IDEMPOTENCY_SERVICE_H_

#include "absl/time/time.h"

#include "core/clock.h"
#include "core/limits.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "server/batcher.h"
#include "server/observer.h"
#include "server/wait_room.h"

namespace idempotency {

struct IdempotencyServiceOptions {
  // How old an unknown UUIDv7 key may be.
  absl::Duration window = limits::kDefaultWindow;
  // The bounds of InFlight.retry_after, which is otherwise what is left of the
  // running attempt's lease: most attempts end long before it, and nobody
  // should ask more often than the first.
  absl::Duration min_retry_after = absl::Milliseconds(100);
  absl::Duration max_retry_after = absl::Seconds(1);
  const Clock* clock = &Clock::System();
};

// The gRPC service idempotency.v1.IdempotencyService: checks every field,
// translates, and answers when the batcher or the wait room does. Holds no
// thread while it waits. Thread-safe.
class IdempotencyService final : public v1::IdempotencyService::CallbackService {
 public:
  // All of them must outlive the server that this is registered with.
  IdempotencyService(Batcher& batcher, WaitRoom& wait_room, Observer& observer,
                     const IdempotencyServiceOptions& options = {});

  grpc::ServerUnaryReactor* Reserve(grpc::CallbackServerContext* context,
                                    const v1::ReserveRequest* request,
                                    v1::ReserveResponse* response) override;
  grpc::ServerUnaryReactor* Complete(grpc::CallbackServerContext* context,
                                     const v1::CompleteRequest* request,
                                     v1::CompleteResponse* response) override;
  grpc::ServerUnaryReactor* Release(grpc::CallbackServerContext* context,
                                    const v1::ReleaseRequest* request,
                                    v1::ReleaseResponse* response) override;
  grpc::ServerUnaryReactor* Extend(grpc::CallbackServerContext* context,
                                   const v1::ExtendRequest* request,
                                   v1::ExtendResponse* response) override;
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context, const v1::GetRequest* request,
                                v1::GetResponse* response) override;

 private:
  Batcher& batcher_;
  WaitRoom& wait_room_;
  Observer& observer_;
  const IdempotencyServiceOptions options_;
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_SERVER_IDEMPOTENCY_SERVICE_H_
