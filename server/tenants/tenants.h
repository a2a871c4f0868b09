#ifndef IDEMPOTENCY_SERVER_TENANTS_TENANTS_H_
#define IDEMPOTENCY_SERVER_TENANTS_TENANTS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "core/clock.h"
#include "core/mutex.h"
#include "server/observability/observer.h"
#include "server/store/namespace_usage.h"
#include "server/store/record_operations.h"
#include "server/tenants/namespace_settings.h"
#include "server/tenants/rate_limit.h"
#include "server/tenants/recent_usage.h"

namespace idempotency::internal {

// The namespaces that the configuration lists, with their limits and what they use of them.
// Operations of other namespaces are admitted with the defaults. Thread-safe.
class Tenants {
 private:
  struct Tenant;

 public:
  // The terms of a reservation that its caller stated; it leaves the others to the namespace.
  struct StatedTerms {
    bool lease = false;
    bool retention = false;
  };

  // One place among a namespace's unanswered operations, until it is destroyed.
  class Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept { *this = std::move(other); }
    Place& operator=(Place&& other) noexcept;
    ~Place() { Release(); }

    void Release();

    // The quota that its namespace had reached, if the reservation is for existing records only.
    const std::optional<QuotaLimit>& reached() const { return reached_; }
    // REQUEST_INVALID if the reservation is for existing records only because its retention is out
    // of its namespace's bounds; otherwise OK.
    const absl::Status& out_of_bounds() const { return out_of_bounds_; }
    // Its reservation made a record. Before Release().
    void CountRecord();

   private:
    friend class Tenants;
    Place(std::shared_ptr<Tenant> tenant, bool waiting, std::optional<QuotaLimit> reached,
          absl::Status out_of_bounds, absl::Duration life)
        : tenant_(std::move(tenant)),
          waiting_(waiting),
          reached_(reached),
          out_of_bounds_(std::move(out_of_bounds)),
          life_(life) {}

    std::shared_ptr<Tenant> tenant_;
    bool waiting_ = false;
    std::optional<QuotaLimit> reached_;
    absl::Status out_of_bounds_;
    // Of the record that its reservation may make.
    absl::Duration life_;
  };

  // Both outlive this.
  explicit Tenants(Observer& observer, const Clock& clock = Clock::System())
      : observer_(observer), clock_(clock) {}
  Tenants(const Tenants&) = delete;
  Tenants& operator=(const Tenants&) = delete;

  // Operations in progress keep their places, and count for the new limits. `not_before` is of
  // every namespace (NamespaceSettings::not_before), and the later of it and a namespace's own
  // applies.
  void Configure(const NamespaceSettingsMap& settings,
                 std::optional<absl::Time> not_before = std::nullopt) ABSL_LOCKS_EXCLUDED(mutex_);

  // A place for a read. RESOURCE_EXHAUSTED / QUOTA_EXCEEDED with a retry delay if the namespace is
  // over its rate or its number of operations.
  absl::StatusOr<Place> AdmitRead(absl::string_view name_space) ABSL_LOCKS_EXCLUDED(mutex_);
  // The same for one of these namespaces: refused if each of them refuses it.
  absl::StatusOr<Place> AdmitReadOfOne(const std::vector<std::string>& name_spaces)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The same for a reservation, whose window and default retention are set. A caller that is over
  // the number of waiting ones does not wait: `max_wait` becomes zero. Only
  // existing records may be reserved (ReserveOp::only_existing) if the namespace has reached a
  // quota, or if the retention is out of its bounds, which the reservation then gets in its place:
  // an operation that was recorded under other bounds is still replayed.
  absl::StatusOr<Place> AdmitReservation(ReserveOp& op, const StatedTerms& stated,
                                         absl::Duration& max_wait) ABSL_LOCKS_EXCLUDED(mutex_);
  // The namespaces of the configuration, by name.
  std::vector<std::string> Names() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The namespaces that bound it, and how long a record of theirs may be UNKNOWN.
  std::map<std::string, absl::Duration> UnknownLives() const ABSL_LOCKS_EXCLUDED(mutex_);

  // The answer to a reservation that would have needed a new record: RESOURCE_EXHAUSTED /
  // QUOTA_EXCEEDED with a retry delay.
  absl::Status RefuseRecord(absl::string_view name_space, QuotaLimit reached) const;
  // The same where the reservation's retention is out of bounds (Place::out_of_bounds()), with
  // REQUEST_INVALID.
  absl::Status RefuseRetention(absl::string_view name_space, const Place& place) const;
  // A record was completed, with a reply of this size. One whose answer the store lost counts from
  // the next measurement on.
  void CountReply(absl::string_view name_space, std::size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  // The usage of a namespace is its last measurement, and what this replica added since that
  // began, until the end of the records: a measurement may take longer than they live. Until the
  // first one ends no quota is reached.
  struct Quota {
    std::string name_space;
    // The highest number if there is no limit.
    NamespaceUsage most;
    // A reservation found it reached since the last measurement: the next one may show that
    // records have ended.
    bool reached = false;
  };
  // By name.
  std::vector<Quota> Quotas() const ABSL_LOCKS_EXCLUDED(mutex_);
  void BeginMeasurement(absl::string_view name_space) ABSL_LOCKS_EXCLUDED(mutex_);
  void EndMeasurement(absl::string_view name_space, const NamespaceUsage& usage)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Tenant {
    explicit Tenant(const Clock& clock) : clock(clock) {}

    const Clock& clock;
    Mutex mutex;
    // Replaced as a whole, never changed: who has the pointer reads them without the lock.
    std::shared_ptr<const NamespaceSettings> settings ABSL_GUARDED_BY(mutex);
    std::optional<RateLimit> rate ABSL_GUARDED_BY(mutex);
    std::uint32_t in_flight ABSL_GUARDED_BY(mutex) = 0;
    std::uint32_t waiting ABSL_GUARDED_BY(mutex) = 0;
    std::optional<NamespaceUsage> measured ABSL_GUARDED_BY(mutex);
    // By this replica, since the last measurement and since the one in progress began.
    RecentUsage added ABSL_GUARDED_BY(mutex);
    RecentUsage added_since_begin ABSL_GUARDED_BY(mutex);
    // The longest life of a record that this replica made; zero before the first.
    absl::Duration longest_life ABSL_GUARDED_BY(mutex);
    // A quota was found reached since the last measurement.
    bool reached ABSL_GUARDED_BY(mutex) = false;
  };

  struct Refusal {
    QuotaLimit limit;
    absl::Status status;
  };

  std::shared_ptr<Tenant> Find(absl::string_view name_space) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The window of a reservation in a namespace with these settings.
  absl::Duration WindowOf(const RecordKey& key, const NamespaceSettings& settings) const;
  // Counts a place in the tenant. Otherwise the refusal, which is not reported yet.
  std::optional<Refusal> Take(Tenant& tenant, const NamespaceSettings& settings,
                              absl::string_view name_space) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(tenant.mutex);
  std::variant<Place, Refusal> TakeForRead(absl::string_view name_space)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // To the observer.
  absl::Status Report(absl::string_view name_space, Refusal refusal) const;

  static void CountFor(absl::Duration life, const NamespaceUsage& more, Tenant& tenant)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(tenant.mutex);
  static std::optional<QuotaLimit> ReachedQuota(Tenant& tenant, const NamespaceSettings& settings)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(tenant.mutex);

  Observer& observer_;
  const Clock& clock_;
  // Nothing is configured: no lock is needed.
  std::atomic<bool> empty_{true};
  // For every namespace, in nanoseconds since 1970; without one a time before every key's.
  std::atomic<std::int64_t> not_before_{absl::ToUnixNanos(absl::InfinitePast())};
  mutable Mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<Tenant>> tenants_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_TENANTS_TENANTS_H_
