#ifndef IDEMPOTENCY_SERVER_OPERATION_OPERATION_OF_H_
#define IDEMPOTENCY_SERVER_OPERATION_OPERATION_OF_H_

#include "idempotency/v1/idempotency_service.pb.h"
#include "server/observability/operation_kind.h"
#include "server/operation/operations.h"

namespace idempotency::internal {

// For the type of a request: its response, the kind of its operation, and how that is begun.
template <typename Request>
struct OperationOf;

template <>
struct OperationOf<v1::ReserveRequest> {
  using Response = v1::ReserveResponse;
  static constexpr OperationKind kKind = OperationKind::kReserve;
  static constexpr auto kBegin = &Operations::Reserve;
};
template <>
struct OperationOf<v1::CompleteRequest> {
  using Response = v1::CompleteResponse;
  static constexpr OperationKind kKind = OperationKind::kComplete;
  static constexpr auto kBegin = &Operations::Complete;
};
template <>
struct OperationOf<v1::ReleaseRequest> {
  using Response = v1::ReleaseResponse;
  static constexpr OperationKind kKind = OperationKind::kRelease;
  static constexpr auto kBegin = &Operations::Release;
};
template <>
struct OperationOf<v1::ExtendRequest> {
  using Response = v1::ExtendResponse;
  static constexpr OperationKind kKind = OperationKind::kExtend;
  static constexpr auto kBegin = &Operations::Extend;
};
template <>
struct OperationOf<v1::GetRequest> {
  using Response = v1::GetResponse;
  static constexpr OperationKind kKind = OperationKind::kGet;
  static constexpr auto kBegin = &Operations::Get;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_OPERATION_OPERATION_OF_H_
