#ifndef IDEMPOTENCY_SERVER_WORLDS_TESTING_SERVICE_H_
#define IDEMPOTENCY_SERVER_WORLDS_TESTING_SERVICE_H_

#include "idempotency/testing/v1/testing_service.grpc.pb.h"
#include "server/worlds/worlds.h"

namespace idempotency::internal {

// idempotency.testing.v1.TestingService. Thread-safe.
class TestingService final : public testing::v1::TestingService::CallbackService {
 public:
  // `worlds` outlives the server that this is registered with.
  explicit TestingService(Worlds& worlds) : worlds_(worlds) {}

  grpc::ServerUnaryReactor* AdvanceClock(grpc::CallbackServerContext* context,
                                         const testing::v1::AdvanceClockRequest* request,
                                         testing::v1::AdvanceClockResponse* response) override;
  grpc::ServerUnaryReactor* Reset(grpc::CallbackServerContext* context,
                                  const testing::v1::ResetRequest* request,
                                  testing::v1::ResetResponse* response) override;

 private:
  absl::Status Advance(const grpc::CallbackServerContext& context,
                       const testing::v1::AdvanceClockRequest& request,
                       testing::v1::AdvanceClockResponse& response);

  Worlds& worlds_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_WORLDS_TESTING_SERVICE_H_
