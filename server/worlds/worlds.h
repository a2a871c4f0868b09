#ifndef IDEMPOTENCY_SERVER_WORLDS_WORLDS_H_
#define IDEMPOTENCY_SERVER_WORLDS_WORLDS_H_

#include <grpcpp/server_context.h>

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "core/mutex.h"
#include "server/observability/observer.h"
#include "server/queue/batcher.h"
#include "server/queue/in_flight_waiters.h"
#include "server/rpc/idempotency_service.h"
#include "server/worlds/world_clock.h"
#include "server/worlds/world_store.h"

namespace idempotency::internal {

// The metadata of a call that names its world.
inline constexpr absl::string_view kWorldMetadata = "idempotency-test-world";

// A service with its own records and its own clock, so that tests do not affect each other. It
// has two threads. Thread-safe.
class World {
 public:
  // `observer` outlives it.
  World(Observer& observer, const WorldStore::Limits& limits);
  // After the server that it was called by has ended.
  ~World() { batcher_.Close(); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  IdempotencyService& service() { return service_; }

  // The clock after the move. Errors as of WorldClock::Advance().
  absl::StatusOr<absl::Time> AdvanceClock(absl::Duration by);
  void Reset();
  // Before a server is drained: waiting calls are answered, sessions are notified.
  void StopWaiting();

 private:
  WorldClock clock_;
  WorldStore store_;
  Batcher batcher_;
  InFlightWaiters waiters_;
  IdempotencyService service_;
};

// The worlds of a server for tests, each made by the first call that names it. They last as long
// as this: a session may use its world at any time. Thread-safe.
class Worlds {
 public:
  struct Limits {
    std::size_t worlds = 256;
    WorldStore::Limits of_a_world;
  };
  static constexpr std::size_t kMaxName = 128;

  // `observer` outlives it.
  explicit Worlds(Observer& observer) : Worlds(observer, Limits()) {}
  Worlds(Observer& observer, const Limits& limits) : observer_(observer), limits_(limits) {}
  Worlds(const Worlds&) = delete;
  Worlds& operator=(const Worlds&) = delete;

  // The world that a call's metadata names; the default world, "", without it.
  //   INVALID_ARGUMENT / REQUEST_INVALID      the name is not one
  //   RESOURCE_EXHAUSTED / QUOTA_EXCEEDED     there is no room for another world
  absl::StatusOr<World*> Of(const grpc::ServerContextBase& context) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<World*> Named(const std::string& name) ABSL_LOCKS_EXCLUDED(mutex_);

  // Before a server is drained, for every world.
  void StopWaiting() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  Observer& observer_;
  const Limits limits_;
  Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, std::unique_ptr<World>> worlds_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_WORLDS_WORLDS_H_
