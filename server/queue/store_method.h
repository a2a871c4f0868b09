#ifndef IDEMPOTENCY_SERVER_QUEUE_STORE_METHOD_H_
#define IDEMPOTENCY_SERVER_QUEUE_STORE_METHOD_H_

#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "server/observability/operation_kind.h"
#include "server/store/record_store.h"

namespace idempotency::internal {

// One method of the store: everything in which the kinds of operation differ between the queue and
// the store. Each has
//   kKind       its name for the metrics
//   Answer      what the store answers to one operation
//   Done        the receiver of the answer
//   Call()      the method
//   Deliver()   the answer to its receiver
//   NamespaceOf()
template <typename Op>
struct StoreMethod;

// The common part of most of them.
template <typename Op, typename Result>
struct PlainStoreMethod {
  using Answer = Result;
  using Done = std::function<void(Answer)>;

  static void Deliver(const Done& done, Answer answer, Op&&) { done(std::move(answer)); }
  static std::string_view NamespaceOf(const Op& op) { return op.key.name_space; }
};

template <>
struct StoreMethod<ReserveOp> {
  static constexpr OperationKind kKind = OperationKind::kReserve;
  using Answer = absl::StatusOr<Verdict>;
  // A reservation is returned with its answer, since a waiter for a running attempt sends it again.
  using Done = std::function<void(Answer, ReserveOp)>;

  static std::vector<Answer> Call(RecordStore& store, absl::Span<const ReserveOp> ops) {
    return store.Reserve(ops);
  }
  static void Deliver(const Done& done, Answer answer, ReserveOp&& op) {
    done(std::move(answer), std::move(op));
  }
  static std::string_view NamespaceOf(const ReserveOp& op) { return op.key.name_space; }
};

template <>
struct StoreMethod<CompleteOp> : PlainStoreMethod<CompleteOp, absl::StatusOr<Completion>> {
  static constexpr OperationKind kKind = OperationKind::kComplete;

  static std::vector<Answer> Call(RecordStore& store, absl::Span<const CompleteOp> ops) {
    return store.Complete(ops);
  }
};

template <>
struct StoreMethod<ReleaseOp> : PlainStoreMethod<ReleaseOp, absl::Status> {
  static constexpr OperationKind kKind = OperationKind::kRelease;

  static std::vector<Answer> Call(RecordStore& store, absl::Span<const ReleaseOp> ops) {
    return store.Release(ops);
  }
};

template <>
struct StoreMethod<ExtendOp> : PlainStoreMethod<ExtendOp, absl::StatusOr<Extension>> {
  static constexpr OperationKind kKind = OperationKind::kExtend;

  static std::vector<Answer> Call(RecordStore& store, absl::Span<const ExtendOp> ops) {
    return store.Extend(ops);
  }
};

template <>
struct StoreMethod<GetOp> : PlainStoreMethod<GetOp, absl::StatusOr<Record>> {
  static constexpr OperationKind kKind = OperationKind::kGet;

  static std::vector<Answer> Call(RecordStore& store, absl::Span<const GetOp> ops) {
    return store.Get(ops);
  }
  // A read by record id alone names no namespace: it has the share of its caller.
  static std::string_view NamespaceOf(const GetOp& op) {
    return op.key.has_value() ? op.key->name_space : op.owner;
  }
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_QUEUE_STORE_METHOD_H_
