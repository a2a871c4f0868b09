#include "server/rpc/inline_write_scope.h"

#include <grpc/grpc.h>

#include "core/grpc_headers.h"
#include "server/rpc/event_loop.h"

namespace idempotency::internal {
namespace {

thread_local InlineWriteScope* current = nullptr;

}  // namespace

InlineWriteScope::InlineWriteScope() : outermost_(current == nullptr) {
  if (outermost_) current = this;
}

InlineWriteScope::~InlineWriteScope() {
  if (!outermost_) return;
  while (!ended_.empty()) {
    const auto [tag, ok] = ended_.front();
    ended_.pop_front();
    static_cast<QueueEvent*>(tag)->Happened(ok);
  }
  current = nullptr;
}

void InlineWriteScope::Begin(grpc::CompletionQueue& queue, absl::FunctionRef<void()> write) {
  if (current == nullptr) return write();
  // If the write does not end here, another thread may have ended the call since, and with the last
  // call the queue, which flushing does not access then.
  grpc_completion_queue* const core = queue.cq();
  grpc_completion_queue_thread_local_cache_init(core);
  write();
  void* core_tag = nullptr;
  int succeeded = 0;
  const int cached = grpc_completion_queue_thread_local_cache_flush(core, &core_tag, &succeeded);
  if (cached != 1) return;
  void* tag = core_tag;
  bool ok = succeeded == 1;
  if (static_cast<grpc::internal::CompletionQueueTag*>(core_tag)->FinalizeResult(&tag, &ok)) {
    current->ended_.emplace_back(tag, ok);
  }
}

}  // namespace idempotency::internal
