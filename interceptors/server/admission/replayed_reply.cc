#include "interceptors/server/admission/replayed_reply.h"

#include <string>
#include <string_view>
#include <utility>

#include "core/retry_delays.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/idempotency_key.h"
#include "interceptors/server/admission/rejection.h"
#include "interceptors/server/execution/reply_body.h"
#include "interceptors/server/request/application_call.h"
#include "interceptors/server/wire/record_metadata.h"
#include "interceptors/server/wire/traceparent.h"

namespace idempotency::internal {
namespace {

// "" for the complete content.
std::string_view ContentName(v1::ReplyContent content) {
  switch (content) {
    case v1::REPLY_CONTENT_REDACTED:
      return "redacted";
    case v1::REPLY_CONTENT_REFERENCE:
      return "reference";
    case v1::REPLY_CONTENT_STATUS_ONLY:
      return "status-only";
    default:
      return "";
  }
}

// The stored reply as a replay, for any body.
SentReply WithRecordMetadata(ReplayedReply::Stored stored) {
  MetadataEntries trailers = RecordMetadata(stored.record_id, stored.expires_at, /*replayed=*/true);
  // A label of another client: any text.
  if (IsTraceparent(stored.traceparent)) {
    trailers.emplace_back(kTraceMetadata, std::move(stored.traceparent));
  }
  const std::string_view content = ContentName(stored.reply->content());
  if (!content.empty()) trailers.emplace_back(kContentMetadata, content);
  return SentReply(std::move(stored.reply), std::move(trailers));
}

absl::Status LoadFailed() {
  return MakeError(Reason::kStoreUnavailable,
                   "the operation completed, but its reply cannot be read now; nothing was run "
                   "again: call again with the same idempotency key",
                   RetryAfter(retry_delays::kUnavailable));
}

absl::Status TooManyLoad() {
  return MakeError(Reason::kOverloaded,
                   "the operation completed, but too many replies are being read now; nothing was "
                   "run again: call again later with the same idempotency key",
                   RetryAfter(retry_delays::kGuardOverloaded));
}

absl::StatusOr<SentReply> Load(const GuardedOperation& operation, ReplayedReply::Stored stored) {
  v1::Reference reference;
  const auto message = operation.reply_type.New();
  if (message == nullptr || !reference.ParseFromString(stored.reply->body())) {
    return ReplyNotKept(stored.reply->code());
  }
  const absl::Status loaded =
      CallApplication(*operation.log, operation.name, "the reply loader",
                      [&] { return operation.loader(reference, *message); });
  if (absl::IsNotFound(loaded)) return ReplyNotKept(stored.reply->code());
  if (!loaded.ok()) {
    // Its message is the application's, and may contain data that must not be logged.
    operation.log->Error(LogEvent::kLoaderFailed, operation.name, ": record ", stored.record_id,
                         ": the reply loader failed: ", absl::StatusCodeToString(loaded.code()));
    return LoadFailed();
  }
  const auto reply = std::make_shared<v1::Reply>(*stored.reply);
  SetBody(*message, *reply);
  if (reply->content() == v1::REPLY_CONTENT_STATUS_ONLY) return ReplyNotKept(reply->code());
  stored.reply = reply;
  return WithRecordMetadata(std::move(stored));
}

}  // namespace

void ReplayedReply::Make(std::shared_ptr<const GuardedOperation> operation, Stored stored,
                         Done done) {
  const v1::Reply& reply = *stored.reply;
  const bool loads = reply.content() == v1::REPLY_CONTENT_REFERENCE;
  // A reference without a loader was stored when the method had one.
  if (!CanBeReplayed(reply) || (loads && !operation->loader)) {
    done(ReplyNotKept(reply.code()));
    return;
  }
  if (!loads) {
    done(WithRecordMetadata(std::move(stored)));
    return;
  }
  WorkerPool& loaders = operation->pools.loaders;
  switch (loaders.Run([operation = std::move(operation), stored = std::move(stored),
                       done]() mutable { done(Load(*operation, std::move(stored))); },
                      [done] { done(LoadFailed()); })) {
    case WorkerPool::Outcome::kTaken:
      return;
    case WorkerPool::Outcome::kFull:
      done(TooManyLoad());
      return;
    case WorkerPool::Outcome::kStopped:
      done(LoadFailed());
      return;
  }
}

}  // namespace idempotency::internal
