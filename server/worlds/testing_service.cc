#include "server/worlds/testing_service.h"

#include "core/wire_time.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"

namespace idempotency::internal {

grpc::ServerUnaryReactor* TestingService::AdvanceClock(
    grpc::CallbackServerContext* context, const testing::v1::AdvanceClockRequest* request,
    testing::v1::AdvanceClockResponse* response) {
  grpc::ServerUnaryReactor* const call = context->DefaultReactor();
  call->Finish(ToGrpcStatus(Advance(*context, *request, *response)));
  return call;
}

absl::Status TestingService::Advance(const grpc::CallbackServerContext& context,
                                     const testing::v1::AdvanceClockRequest& request,
                                     testing::v1::AdvanceClockResponse& response) {
  if (!IsValid(request.by())) {
    return MakeError(Reason::kRequestInvalid, "by: is no valid google.protobuf.Duration");
  }
  const absl::StatusOr<World*> world = worlds_.Of(context);
  if (!world.ok()) return world.status();
  // The store counts in microseconds.
  const absl::StatusOr<absl::Time> now =
      (*world)->AdvanceClock(absl::Trunc(FromWire(request.by()), absl::Microseconds(1)));
  if (!now.ok()) return now.status();
  ToWire(*now, *response.mutable_now());
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* TestingService::Reset(grpc::CallbackServerContext* context,
                                                const testing::v1::ResetRequest* /*request*/,
                                                testing::v1::ResetResponse* /*response*/) {
  grpc::ServerUnaryReactor* const call = context->DefaultReactor();
  const absl::StatusOr<World*> world = worlds_.Of(*context);
  if (world.ok()) (*world)->Reset();
  call->Finish(ToGrpcStatus(world.status()));
  return call;
}

}  // namespace idempotency::internal
