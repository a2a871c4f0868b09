#ifndef IDEMPOTENCY_SERVER_STORE_REDIS_REDIS_STORE_H_
#define IDEMPOTENCY_SERVER_STORE_REDIS_REDIS_STORE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "core/database_connection_pool.h"
#include "core/mutex.h"
#include "server/store/redis/calls.h"
#include "server/store/redis/connections.h"
#include "server/store/redis/identity.h"
#include "server/store/redis/index.h"
#include "server/store/redis/markers.h"
#include "server/store/redis/options.h"
#include "server/store/redis/record.h"
#include "server/store/redis/topology.h"
#include "server/store/store.h"

namespace idempotency::internal {

// Records in Redis or Valkey: one server, a master behind Sentinels, or a Cluster. Any number of
// processes may share one. It keeps as much of the promises as the server's durability does, and
// less than Postgres where a master is replaced: docs/redis.md has the table.
//
// A record is one hash; a script decides on it by the server's clock and writes it, all at once.
// The operations of a call are one pipeline for each server, or several if they are large
// (kMaxRedisSliceBytes). Redis itself forgets a record,
// limits::kClockStepMargin after its retention and its tombstone; one that is UNKNOWN, or RESERVED
// under REQUIRE_RECOVERY, never.
//
// An operation whose answer did not arrive in time, or whose writes the replicas did not confirm
// (RedisOptions::wait_replicas), is STORE_UNAVAILABLE; a repetition with the same tokens finds
// what it did.
//
// Thread-safe: calls share a pool of connections, one per call in progress.
class RedisStore final : public Store {
 public:
  // Connects, checks the servers, and finds or begins the data.
  //   INVALID_ARGUMENT     An option is wrong.
  //   FAILED_PRECONDITION  The server must not hold records (CheckRedisServer), or has those of
  //                        another layout, or lacks markers, and RedisOptions::accept_empty is not
  //                        set.
  //   UNAVAILABLE          It cannot be reached now, is a replica, or another process prepares it:
  //                        try again.
  static absl::StatusOr<std::unique_ptr<RedisStore>> Open(const RedisOptions& options);
  // Which of RedisIdentity::kMarkers are not as they should be. Changes nothing. The errors of
  // Open.
  static absl::StatusOr<RedisMarkers::Faults> FindMarkerFaults(const RedisOptions& options);

  std::vector<absl::StatusOr<Verdict>> Reserve(absl::Span<const ReserveOp> ops) override;
  std::vector<absl::StatusOr<Completion>> Complete(absl::Span<const CompleteOp> ops) override;
  SharedAnswers CompleteAndReserve(absl::Span<const CompleteOp> completions,
                                   absl::Span<const ReserveOp> reservations) override;
  std::vector<absl::Status> Release(absl::Span<const ReleaseOp> ops) override;
  std::vector<absl::StatusOr<Extension>> Extend(absl::Span<const ExtendOp> ops) override;
  std::vector<absl::StatusOr<Record>> Get(absl::Span<const GetOp> ops) override;
  // Redis removes records itself. A pass marks lapsed reservations UNKNOWN, drops the content of
  // replies, leaves tombstones, removes entries of the index whose records are gone, and counts
  // the gauges. `removed` counts only the records that the sweep came to first.
  absl::StatusOr<SweepProgress> Sweep(const SweepOp& op) override;
  // The order of every pass is by id.
  absl::StatusOr<RecordPage> List(const ListOp& op) override;
  // Resolve and Purge write the entry of the audit log first: where the process or the server
  // ends in between, the log has an entry of a change that did not happen, never the reverse.
  absl::StatusOr<Resolution> Resolve(const ResolveOp& op) override;
  absl::StatusOr<PurgeStep> Purge(const PurgeOp& op) override;
  // REQUEST_INVALID: replies that previous keys sealed stay until their retention ends.
  absl::StatusOr<ResealStep> Reseal(const ResealOp& op) override;
  absl::StatusOr<AuditPage> ReadAudit(const AuditOp& op) override;
  absl::StatusOr<UsageStep> MeasureUsage(const UsageOp& op) override;
  absl::StatusOr<EndUnknownStep> EndUnknown(const EndUnknownOp& op) override;
  // Writes to every server, and waits for the replicas as completions do; one that confirms is
  // enough. The gauges are those of the last whole pass of the sweep, of any process.
  absl::StatusOr<StoreGauges> Inspect() override;

  DatabaseConnectionPoolGauges connections() const { return pool_.gauges(); }

 private:
  using Pool = DatabaseConnectionPool<RedisConnections>;
  using Replies = std::vector<absl::StatusOr<RedisReply>>;
  // A record of a walk.
  struct Visit {
    RedisIndex::Entry entry;
    absl::StatusOr<RedisRead> read;
  };
  struct Walk {
    std::vector<Visit> visits;
    std::optional<RecordId> next;
  };

  explicit RedisStore(const RedisOptions& options);

  // Finds the markers and the layout, or writes them with RedisOptions::accept_empty.
  absl::Status Begin();
  void WarnOfLosses(RedisConnections& connections);
  // A server of a Cluster is not reached, and the others may serve.
  bool MayBeAway(const absl::Status& failure) const;

  // Of RedisConnections.
  struct Ran {
    bool in_order = false;
    RedisAddress answered_by;
  };
  // Runs the calls on connections of the pool; without them, each fails. Sets `*ran`, if not null.
  Replies Run(absl::Span<const RedisCall> calls, Ran* ran = nullptr);
  // Also while records are known to be lost.
  Replies RunAnyway(absl::Span<const RedisCall> calls, Ran* ran = nullptr);
  absl::StatusOr<RedisReply> RunOne(const RedisCall& call);

  // The calls of a reservation.
  struct Placed {
    std::size_t record = 0;
    // nullopt if a record that is new is not expected.
    std::optional<std::size_t> entry;
  };
  // False for a key that the window refuses, and for a namespace that has no room.
  bool MayBegin(const ReserveOp& op) const;
  std::vector<Placed> AddReservations(absl::Span<const ReserveOp> ops,
                                      std::vector<RedisCall>& calls) const;
  // The verdicts of `replies`, to the calls with those of AddReservations(). Reads replies that are
  // large.
  std::vector<absl::StatusOr<Verdict>> VerdictsOf(
      absl::Span<const ReserveOp> ops, const std::vector<Placed>& placed,
      absl::Span<const absl::StatusOr<RedisReply>> replies, bool in_order);
  // Adds the entries of grants that were not added, or may have been added before the record
  // (`in_order` is false). Fails those that have none.
  void EnsureEntries(absl::Span<const ReserveOp> ops, const std::vector<Placed>& placed,
                     absl::Span<const absl::StatusOr<RedisReply>> replies, bool in_order,
                     std::vector<absl::StatusOr<Verdict>>& verdicts);
  // The records of a page of the index, without their replies.
  absl::StatusOr<Walk> WalkFrom(const std::optional<RecordId>& after,
                                const std::optional<RecordId>& until,
                                const RedisIndex::Filter& filter, int limit);
  absl::StatusOr<RedisRead> ReadOne(const RecordId& id);
  // Removes the entries of records that are gone, and restores those whose record came back
  // meanwhile. Removes none while an earlier one is not restored.
  void DropEntries(const std::vector<const RedisIndex::Entry*>& gone);
  // Those that could not be restored. False if one of them still cannot be.
  bool RestoreEntries();
  absl::Status SweepVisits(const Walk& walk, SweepProgress& progress);
  // As many at a time as limits::kMaxBatchReplyBytes holds.
  absl::Status DropReplies(const std::vector<const Visit*>& visits, SweepProgress& progress);
  void Count(const SweepOp& op, const Walk& walk, const SweepProgress& progress);
  absl::StatusOr<bool> HoldSweep(const SweepOp& op);

  absl::StatusOr<std::vector<RedisCall>> ProbesOfServers();
  // STORE_UNAVAILABLE if the only server, or that which the Sentinels named, is a replica.
  absl::Status CheckRole(const absl::StatusOr<RedisReply>& info, const RedisAddress& server);
  // STORE_UNAVAILABLE once one shows that records were lost, until all of them show the contrary.
  absl::Status CheckMarkers(absl::Span<const absl::StatusOr<RedisReply>> markers);
  // Those of before, or none, while their server does not answer, or has none.
  StoreGauges ReadGauges(const absl::StatusOr<RedisReply>& clock,
                         const absl::StatusOr<RedisReply>& stored);

  absl::StatusOr<Resolution> ResolveOnce(const ResolveOp& op, bool& changed);
  absl::StatusOr<PurgeStep> PurgeOne(const PurgeOp& op);
  // Forgets the records; false for each that changed meanwhile.
  absl::StatusOr<std::vector<bool>> Forget(const PurgeOp& op,
                                           const std::vector<const StoredRecord*>& records,
                                           absl::Time now);
  absl::StatusOr<std::string> AuditKey();
  RedisCall AuditCall(const AuditEntry& entry, RedisCalls::IfFull if_full) const;
  std::string AuditLogOf(const std::string& name_space) const;
  // Takes back the entries of changes that did not happen.
  void TakeBack(const std::string& name_space, const std::vector<std::string>& entries);

  const RedisOptions options_;
  const RedisCalls calls_;
  const RedisIndex index_;
  RedisTopology topology_;
  RedisIdentity identity_;
  Pool pool_;
  // Names this process in the lock of the sweep.
  const std::string owner_ = Uuid::Random().ToString();

  // The markers were not as they should be at the last look (RedisIdentity).
  std::atomic<bool> lost_{false};

  Mutex mutex_;
  std::string audit_key_ ABSL_GUARDED_BY(mutex_);
  // The pass of the sweep that is under way, from its beginning.
  struct Tally {
    bool whole = false;
    std::int64_t unknown = 0;
    std::optional<absl::Time> oldest_reserved;
  };
  Tally tally_ ABSL_GUARDED_BY(mutex_);
  // Members of the index that were removed and could not be restored: of one step of each caller.
  std::vector<std::string> unrestored_ ABSL_GUARDED_BY(mutex_);
  // The gauges of the last inspection that could read them.
  StoreGauges gauges_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_REDIS_REDIS_STORE_H_
