#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_GUARDED_CALL_TABLE_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_GUARDED_CALL_TABLE_H_

#include <array>
#include <cstddef>
#include <memory>

#include "absl/container/flat_hash_map.h"

#include "core/mutex.h"

namespace grpc {
class ServerContextBase;
}

namespace idempotency::internal {

class GuardedCall;

// The guarded calls of this process, by their context: a method's admitter and
// Execution::FromContext() find here the calls that the interceptor entered. Contexts are
// compared, never dereferenced. Sharded, thread-safe.
class GuardedCallTable {
 public:
  static GuardedCallTable& Instance();

  // gRPC reuses the memory of contexts: an older entry with the same address is replaced.
  void Enter(const grpc::ServerContextBase* context, std::shared_ptr<GuardedCall> call);
  // Does nothing if another call now has the address.
  void Leave(const grpc::ServerContextBase* context, const GuardedCall* call);
  // nullptr for a call that was not entered.
  std::shared_ptr<GuardedCall> Find(const grpc::ServerContextBase* context);

  // The number of calls, for tests.
  std::size_t size();

 private:
  struct Shard {
    Mutex mutex;
    absl::flat_hash_map<const grpc::ServerContextBase*, std::shared_ptr<GuardedCall>> calls
        ABSL_GUARDED_BY(mutex);
  };

  Shard& ShardOf(const grpc::ServerContextBase* context);

  std::array<Shard, 64> shards_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_GUARDED_CALL_TABLE_H_
