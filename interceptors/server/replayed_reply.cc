#include "interceptors/server/replayed_reply.h"

#include <spdlog/spdlog.h>

#include <string>
#include <string_view>
#include <utility>

#include "core/errors.h"
#include "core/idempotency_key.h"
#include "interceptors/server/application_call.h"
#include "interceptors/server/record_metadata.h"
#include "interceptors/server/rejection.h"
#include "interceptors/server/traceparent.h"
#include "interceptors/server/wire_time.h"

namespace idempotency {
namespace {

// "" for all of it.
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

void AddTrailers(const MetadataEntries& entries, v1::Reply& reply) {
  for (const auto& [key, value] : entries) {
    v1::MetadataEntry& entry = *reply.add_trailing_metadata();
    entry.set_key(key);
    entry.set_value(value);
  }
}

void TellOfRecord(const v1::ReserveResponse& verdict, v1::Reply& reply) {
  const v1::Replay& replay = verdict.replay();
  AddTrailers(RecordMetadata(verdict.record_id(), FromWire(replay.expires_at()), /*replayed=*/true),
              reply);
  AddTrailers(TraceMetadata(TraceparentOf(replay.labels())), reply);
  const std::string_view content = ContentName(reply.content());
  if (!content.empty()) {
    AddTrailers({{std::string(kContentMetadata), std::string(content)}}, reply);
  }
}

absl::Status LoadFailed() {
  ErrorDetails details;
  details.retry_delay = absl::Seconds(1);
  return MakeError(Reason::kStoreUnavailable,
                   "the operation completed, but its reply cannot be read now; nothing was run "
                   "again: call again with the same idempotency key",
                   std::move(details));
}

absl::StatusOr<v1::Reply> Load(const GuardedOperation& operation,
                               const v1::ReserveResponse& verdict) {
  v1::Reply reply = verdict.replay().reply();
  v1::Reference reference;
  const auto message = operation.reply_type.New();
  if (message == nullptr || !reference.ParseFromString(reply.body())) {
    return ReplyNotKept(reply.code());
  }
  const absl::Status loaded = CallApplication(
      operation.name, "the reply loader", [&] { return operation.loader(reference, *message); });
  if (absl::IsNotFound(loaded)) return ReplyNotKept(reply.code());
  if (!loaded.ok()) {
    // Its text is the application's, and may hold what is in no log.
    spdlog::error("{}: record {}: the reply loader failed: {}", operation.name, verdict.record_id(),
                  absl::StatusCodeToString(loaded.code()));
    return LoadFailed();
  }
  message->SerializePartialToString(reply.mutable_body());
  TellOfRecord(verdict, reply);
  return reply;
}

}  // namespace

void ReplayedReply::Make(std::shared_ptr<const GuardedOperation> operation,
                         const v1::ReserveResponse& verdict, Done done) {
  const v1::Reply& stored = verdict.replay().reply();
  const absl::Status rejection = RejectionFor(verdict);
  if (!rejection.ok()) {
    done(rejection);
  } else if (stored.content() != v1::REPLY_CONTENT_REFERENCE) {
    v1::Reply reply = stored;
    TellOfRecord(verdict, reply);
    done(std::move(reply));
  } else if (!operation->loader) {
    // The record is of a time when the method had one.
    done(ReplyNotKept(stored.code()));
  } else {
    WorkerThreads& workers = operation->workers;
    const bool taken = workers.Run(
        [operation = std::move(operation), verdict, done] { done(Load(*operation, verdict)); });
    if (!taken) done(LoadFailed());
  }
}

}  // namespace idempotency
