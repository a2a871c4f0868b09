#include "interceptors/server/execution/reply_to_store.h"

#include <optional>

#include "grpc_idempotency/reply.h"
#include "interceptors/server/policy/stream_limit.h"

namespace idempotency::internal {
namespace {

v1::Reply ReferenceReply(const LiveExecution& execution, const v1::Reply& reply) {
  v1::Reply kept = WithoutContent(reply);
  const std::optional<v1::Reference> reference = execution.reference();
  if (!reference.has_value()) {
    execution.operation().log->Error(LogEvent::kInvalidReference, execution.operation().name,
                                     ": record ", execution.record_id(),
                                     ": an OK without Execution::SetReference, which a handler "
                                     "calls before it commits in a completion ledger: the reply "
                                     "cannot be replayed");
    return kept;
  }
  kept.set_content(v1::REPLY_CONTENT_REFERENCE);
  kept.set_body(reference->SerializeAsString());
  return kept;
}

}  // namespace

void ReduceToStored(const LiveExecution& execution, v1::Reply& reply) {
  const GuardedOperation& operation = execution.operation();
  if (reply.content() == v1::REPLY_CONTENT_STATUS_ONLY) return;
  switch (operation.policy.reply) {
    case MethodPolicy::Reply::kStatusOnly:
      reply = WithoutContent(reply);
      return;
    case MethodPolicy::Reply::kReference:
      // An error created no object to read: the error itself is stored.
      if (reply.code() == 0) {
        reply = ReferenceReply(execution, reply);
        return;
      }
      break;
    case MethodPolicy::Reply::kFull:
      break;
  }
  // A captured stream is within it already; one of the completion ledger may not be.
  if (IsOverStreamLimit(operation.policy, reply)) {
    reply = WithoutContent(reply);
    return;
  }
  execution.reply_type().Redact(reply);
  if (ReplyBytes(reply) > operation.options.max_reply_bytes) {
    operation.log->Warn(LogEvent::kReplyNotKept, operation.name, ": a reply of ", ReplyBytes(reply),
                        " bytes is over the limit and not kept, record ", execution.record_id());
    reply = WithoutContent(reply);
  }
}

}  // namespace idempotency::internal
