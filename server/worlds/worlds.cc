#include "server/worlds/worlds.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "grpc_idempotency/embedded/service_options.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal {
namespace {

BatcherOptions Batching() {
  BatcherOptions options;
  // A map in memory.
  options.threads = 1;
  // The smallest that `serve` accepts.
  options.max_bytes = std::size_t{ServiceOptions::kMinQueueMib} * 1024 * 1024;
  return options;
}

absl::Status RefuseName(absl::string_view fault) {
  return MakeError(Reason::kRequestInvalid, absl::StrCat(kWorldMetadata, ": ", fault));
}

}  // namespace

World::World(Observer& observer, const WorldStore::Limits& limits)
    : store_(clock_, limits),
      batcher_(store_, observer, Batching()),
      waiters_(batcher_, observer),
      service_(batcher_, waiters_, observer) {}

absl::StatusOr<absl::Time> World::AdvanceClock(absl::Duration by) {
  if (absl::Status advanced = clock_.Advance(by); !advanced.ok()) return advanced;
  if (absl::Status swept = store_.SweepAll(); !swept.ok()) return swept;
  return clock_.Now();
}

void World::Reset() {
  clock_.Reset();
  store_.Reset();
}

void World::StopWaiting() {
  service_.DrainSessions();
  waiters_.Close();
}

absl::StatusOr<World*> Worlds::Of(const grpc::ServerContextBase& context) {
  const auto [first, last] = context.client_metadata().equal_range(
      grpc::string_ref(kWorldMetadata.data(), kWorldMetadata.size()));
  if (first == last) return Named("");
  if (std::next(first) != last) return RefuseName("is there twice; send one name");
  const std::string name(first->second.data(), first->second.size());
  if (name.empty()) return RefuseName("is empty; leave it out for the default world");
  return Named(name);
}

absl::StatusOr<World*> Worlds::Named(const std::string& name) {
  if (name.size() > kMaxName || !std::all_of(name.begin(), name.end(), absl::ascii_isgraph)) {
    return RefuseName(absl::StrCat("must be 1 to ", kMaxName, " visible ASCII characters"));
  }
  MutexLock lock(mutex_);
  if (const auto found = worlds_.find(name); found != worlds_.end()) return found->second.get();
  if (stopping_) return MakeError(Reason::kStoreUnavailable, "the server is about to end");
  if (worlds_.size() >= limits_.worlds) {
    return MakeError(Reason::kQuotaExceeded,
                     absl::StrCat("there are ", limits_.worlds,
                                  " test worlds; use one again after "
                                  "idempotency.testing.v1.TestingService.Reset, or start another "
                                  "server"));
  }
  auto& made = worlds_[name];
  made = std::make_unique<World>(observer_, limits_.of_a_world);
  return made.get();
}

void Worlds::StopWaiting() {
  MutexLock lock(mutex_);
  stopping_ = true;
  for (const auto& [name, world] : worlds_) world->StopWaiting();
}

}  // namespace idempotency::internal
