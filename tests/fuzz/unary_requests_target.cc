// Requests of the service's unary methods, as they arrive. The first byte selects the method, the
// rest is the message.
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "core/utf8.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/reply.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "server/observability/observer.h"
#include "server/operation/wire_request.h"
#include "server/queue/memory_budget.h"
#include "server/rpc/unary_request.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/property.h"
#include "tests/fuzz/targets.h"

namespace idempotency::internal::fuzz {
namespace {

void RequireGoodRefusal(const absl::Status& status) {
  const auto reason = ReasonOf(status);
  Require(status.code() == absl::StatusCode::kInvalidArgument, "a refusal is INVALID_ARGUMENT");
  Require(reason == Reason::kKeyMissing || reason == Reason::kKeyInvalid ||
              reason == Reason::kRequestInvalid,
          "a refusal says what was wrong");
  Require(status.message().size() < 512 && IsUtf8WithoutControls(std::string(status.message())),
          "a refusal quotes nothing");
  Require(FromGrpcStatus(ToGrpcStatus(status)) == status, "a refusal survives the wire");
}

bool IsWhole(absl::Duration duration) {
  return duration % absl::Microseconds(1) == absl::ZeroDuration();
}

template <typename Op>
void RequireGoodKey(const Op& op) {
  Require(ValidateRecordKey(op.key).ok(), "the key was checked");
  Require(op.id == RecordIdFor(op.key), "the id is that of the key");
  Require(FromProto(ToProto(op.key)) == op.key, "the key was normalised");
}

void RequireGood(const ReserveOp& op) {
  RequireGoodKey(op);
  Require(ValidateFingerprints(op.fingerprints).ok(), "the fingerprints were checked");
  Require(op.lease >= limits::kMinLease && op.lease <= limits::kMaxLease && IsWhole(op.lease),
          "the lease has its bounds");
  Require(op.retention >= limits::kMinRetention && op.retention <= limits::kMaxRetention &&
              op.retention >= op.lease && IsWhole(op.retention),
          "the retention has its bounds");
  Require(!op.reply_retention ||
              (*op.reply_retention <= op.retention &&
               *op.reply_retention >= limits::kMinReplyRetention && IsWhole(*op.reply_retention)),
          "the reply's retention has its bounds");
  Require(op.tombstone >= absl::ZeroDuration() && op.tombstone <= limits::kMaxTombstone &&
              IsWhole(op.tombstone),
          "the tombstone has its bounds");
  Require(!op.parent || ValidateRecordKey(*op.parent).ok(), "the parent was checked");
  Require(op.labels.size() <= limits::kMaxLabels, "the labels have their bounds");
}

void RequireGood(const CompleteOp& op) {
  RequireGoodKey(op);
  const absl::StatusOr<v1::Reply> reply = DecodeReply(op.reply);
  Require(reply.ok(), "what is stored can be read");
  Require(EncodeReply(*reply) == op.reply, "what is read is what was stored");
  Require(op.reply.bytes.size() <= limits::kMaxReplyBytes, "a reply that is too large is cut");
}

void RequireGood(const ReleaseOp& op) {
  RequireGoodKey(op);
  Require(IsUtf8WithoutControls(op.reason), "the reason was checked");
  Require(
      op.pause >= absl::ZeroDuration() && op.pause <= limits::kMaxReleasePause && IsWhole(op.pause),
      "the pause has its bounds");
}

void RequireGood(const ExtendOp& op) {
  RequireGoodKey(op);
  Require(op.lease >= limits::kMinLease && op.lease <= limits::kMaxLease && IsWhole(op.lease),
          "the lease has its bounds");
  Require(!op.checkpoint || op.checkpoint->size() <= limits::kMaxCheckpointBytes,
          "the checkpoint has its bounds");
}

void RequireGood(const GetOp& op) {
  Require(!op.id.is_nil(), "a record is named");
  Require(!op.key || op.id == RecordIdFor(*op.key), "the id is that of the key");
}

// Small, so that short inputs reach it.
constexpr std::size_t kMaxParsedBytes = 4 * 1024;
// The count for a field is about its memory; containers may allocate as much again for growing.
constexpr std::size_t kMostMemory = 3 * kMaxParsedBytes;

// Checks the admission of the request, which must prevent that anything large is parsed.
template <typename Request>
void ComeIn(std::string_view bytes) {
  const grpc::Slice slice(bytes.data(), bytes.size());
  grpc::ByteBuffer buffer(&slice, 1);
  Observer observer;
  MemoryBudget budget(limits::kDefaultQueuedBytes, observer);
  const absl::StatusOr<MemoryBudget::Hold> hold = AdmitRequest(
      buffer, *Request::descriptor(), kMaxParsedBytes, OperationKind::kComplete, budget);
  Require(buffer.Length() == bytes.size(), "what is measured is left as it is");
  const bool is_message = Request().ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  if (!hold.ok()) {
    RequireGoodRefusal(hold.status());
    const bool over_bound = !DetailsOf(hold.status()).violations.empty();
    Require(over_bound || !is_message, "what is a message is not called damaged");
    return;
  }
  Require(hold->bytes() >= bytes.size() && hold->bytes() <= kMaxParsedBytes,
          "what is held is what the request weighs");
  UnaryRequest<Request> request;
  Require(request.Parse(buffer).ok() == is_message, "the parser decides what is a message");
  // For a text that is cut off the parser reserves its declared length; no page of that is touched,
  // and nothing is kept.
  Require(!is_message || request.message().SpaceUsedLong() <= sizeof(Request) + kMostMemory,
          "what was let in takes no more than was counted");
}

// `translate` is the server's conversion of such a request into an operation.
template <typename Request, typename Translate>
void Take(std::string_view bytes, Translate translate) {
  ComeIn<Request>(bytes);
  Request request;
  if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  const auto op = translate(request);
  Request again;
  Require(again.ParseFromString(request.SerializeAsString()), "a request is sent on as it came");
  const auto op_again = translate(again);
  Require(op.ok() == op_again.ok(), "a request that is repeated is judged as before");
  if (!op.ok()) {
    RequireGoodRefusal(op.status());
    Require(op.status() == op_again.status(), "a request that is repeated is refused as before");
  } else {
    RequireGood(*op);
    Require(op->id == op_again->id, "a request that is repeated names the same record");
  }
}

void TakeDurations(std::string_view bytes) {
  v1::ReserveRequest request;
  if (request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    const absl::StatusOr<absl::Duration> wait = MaxWaitFrom(request);
    if (!wait.ok()) RequireGoodRefusal(wait.status());
    Require(!wait.ok() || (*wait >= absl::ZeroDuration() && *wait <= limits::kMaxWait),
            "a wait has its bounds");
  }
  v1::SessionOperation operation;
  if (operation.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    const absl::StatusOr<absl::Duration> timeout = TimeoutFrom(operation);
    if (!timeout.ok()) RequireGoodRefusal(timeout.status());
    Require(!timeout.ok() || *timeout == absl::InfiniteDuration() ||
                (*timeout >= absl::ZeroDuration() && *timeout <= limits::kMaxRetention),
            "a timeout is one that a clock can count");
  }
}

}  // namespace

void UnaryRequests(std::string_view bytes) {
  Input input(bytes);
  const int method = input.Byte() % 6;
  const std::string_view message = input.Rest();
  switch (method) {
    case 0:
      return Take<v1::ReserveRequest>(message, [](const v1::ReserveRequest& request) {
        return ReserveOpFrom(request, limits::kDefaultWindow);
      });
    case 1:
      return Take<v1::CompleteRequest>(message, CompleteOpFrom);
    case 2:
      return Take<v1::ReleaseRequest>(message, ReleaseOpFrom);
    case 3:
      return Take<v1::ExtendRequest>(message, ExtendOpFrom);
    case 4:
      return Take<v1::GetRequest>(message, GetOpFrom);
    default:
      return TakeDurations(message);
  }
}

}  // namespace idempotency::internal::fuzz
