#ifndef IDEMPOTENCY_SERVER_OBSERVABILITY_GRPC_LOG_H_
#define IDEMPOTENCY_SERVER_OBSERVABILITY_GRPC_LOG_H_

namespace idempotency::internal {

// From now on gRPC's log messages become events of this log, for the life of the process.
void LogWhatGrpcLogs();

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_OBSERVABILITY_GRPC_LOG_H_
