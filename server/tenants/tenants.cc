#include "server/tenants/tenants.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

#include "core/retry_delays.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/record_key.h"

namespace idempotency::internal {
namespace {

absl::Status Exceeded(absl::string_view name_space, absl::string_view limit,
                      absl::Duration retry_delay) {
  ErrorDetails details = RetryAfter(std::max(retry_delay, retry_delays::kMinQuotaDelay));
  details.metadata["limit"] = std::string(limit);
  return MakeError(Reason::kQuotaExceeded,
                   absl::StrCat("namespace \"", name_space, "\" is over its ", limit,
                                ". Nothing was done; try again after the delay, or raise the "
                                "limit in the configuration of idempotencyd."),
                   std::move(details));
}

// What the caller left open.
void SetRetention(const NamespaceSettings& settings, const Tenants::StatedTerms& stated,
                  ReserveOp& op) {
  if (!stated.retention) {
    op.retention = settings.default_retention;
    // A record outlives its lease.
    if (stated.lease) op.retention = std::max(op.retention, op.lease);
    if (!stated.lease) op.lease = std::min(op.lease, op.retention);
  }
  if (op.reply_retention > op.retention) op.reply_retention = op.retention;
}

// The refusal of a new record, if the retention was out of bounds. A recovery of an existing one
// keeps it for the retention, so that must be within them.
absl::Status BoundRetention(const NamespaceSettings& settings, ReserveOp& op) {
  const absl::Duration wanted = op.retention;
  op.retention = std::clamp(wanted, settings.min_retention, settings.max_retention);
  if (op.retention == wanted) return absl::OkStatus();
  if (op.reply_retention > op.retention) op.reply_retention = op.retention;
  return InvalidField(
      "retention",
      absl::StrCat("must be ", absl::FormatDuration(settings.min_retention), " to ",
                   absl::FormatDuration(settings.max_retention), " in this namespace"));
}

bool HasQuota(const NamespaceSettings& settings) {
  return settings.max_records.has_value() || settings.max_reply_bytes.has_value();
}

// How long a record may be kept that a reservation makes now. Its outcome may stay unknown; then
// only a measurement finds that it was settled.
absl::Duration LifeOf(const ReserveOp& op, absl::Time now) {
  if (op.on_lease_expiry == LeaseExpiry::kRequireRecovery) return limits::kMaxRetention;
  const std::optional<absl::Time> made = KeyTime(op.key);
  if (!made.has_value()) return op.retention;
  return std::max(op.retention, op.window) + std::max(absl::ZeroDuration(), *made - now);
}

}  // namespace

Tenants::Place& Tenants::Place::operator=(Place&& other) noexcept {
  if (this == &other) return *this;
  Release();
  tenant_ = std::move(other.tenant_);
  waiting_ = other.waiting_;
  reached_ = other.reached_;
  out_of_bounds_ = std::move(other.out_of_bounds_);
  life_ = other.life_;
  return *this;
}

void Tenants::Place::Release() {
  const std::shared_ptr<Tenant> tenant = std::exchange(tenant_, nullptr);
  if (tenant == nullptr) return;
  MutexLock lock(tenant->mutex);
  --tenant->in_flight;
  if (waiting_) --tenant->waiting;
}

void Tenants::Place::CountRecord() {
  if (tenant_ == nullptr) return;
  MutexLock lock(tenant_->mutex);
  tenant_->longest_life = std::max(tenant_->longest_life, life_);
  CountFor(life_, {1, 0}, *tenant_);
}

void Tenants::Configure(const NamespaceSettingsMap& settings,
                        std::optional<absl::Time> not_before) {
  MutexLock lock(mutex_);
  not_before_.store(absl::ToUnixNanos(not_before.value_or(absl::InfinitePast())),
                    std::memory_order_release);
  absl::flat_hash_map<std::string, std::shared_ptr<Tenant>> configured;
  for (const auto& [name, wanted] : settings) {
    const auto known = tenants_.find(name);
    std::shared_ptr<Tenant> tenant =
        known == tenants_.end() ? std::make_shared<Tenant>(clock_) : known->second;
    auto snapshot = std::make_shared<const NamespaceSettings>(wanted);
    MutexLock tenant_lock(tenant->mutex);
    const std::shared_ptr<const NamespaceSettings> before =
        std::exchange(tenant->settings, std::move(snapshot));
    const bool same_rate =
        before != nullptr && before->max_rate == wanted.max_rate && before->burst == wanted.burst;
    // A file that is read again is no new burst.
    if (!same_rate) {
      tenant->rate.reset();
      if (wanted.max_rate.has_value()) tenant->rate.emplace(*wanted.max_rate, wanted.burst);
    }
    // Nothing is counted without a quota.
    if (!HasQuota(wanted)) tenant->measured.reset();
    configured.emplace(name, tenant);
  }
  tenants_ = std::move(configured);
  empty_.store(tenants_.empty(), std::memory_order_release);
}

std::shared_ptr<Tenants::Tenant> Tenants::Find(absl::string_view name_space) const {
  if (empty_.load(std::memory_order_acquire)) return nullptr;
  MutexLock lock(mutex_);
  const auto found = tenants_.find(name_space);
  return found == tenants_.end() ? nullptr : found->second;
}

std::optional<Tenants::Refusal> Tenants::Take(Tenant& tenant, const NamespaceSettings& settings,
                                              absl::string_view name_space) const {
  if (settings.max_in_flight.has_value() && tenant.in_flight >= *settings.max_in_flight) {
    return Refusal{QuotaLimit::kInFlight, Exceeded(name_space, "number of operations in flight",
                                                   retry_delays::kOperationsInFlight)};
  }
  if (tenant.rate.has_value()) {
    const absl::Duration early = tenant.rate->Admit(clock_.Monotonic());
    if (early > absl::ZeroDuration()) {
      return Refusal{QuotaLimit::kRate, Exceeded(name_space, "rate", early)};
    }
  }
  observer_.TenantAdmitted(name_space);
  ++tenant.in_flight;
  return std::nullopt;
}

absl::Status Tenants::Report(absl::string_view name_space, Refusal refusal) const {
  observer_.QuotaExceeded(name_space, refusal.limit);
  return std::move(refusal.status);
}

std::variant<Tenants::Place, Tenants::Refusal> Tenants::TakeForRead(absl::string_view name_space) {
  std::shared_ptr<Tenant> tenant = Find(name_space);
  if (tenant == nullptr) return Place();
  {
    MutexLock lock(tenant->mutex);
    const std::shared_ptr<const NamespaceSettings> settings = tenant->settings;
    std::optional<Refusal> refusal = Take(*tenant, *settings, name_space);
    if (refusal.has_value()) return *std::move(refusal);
  }
  return Place(std::move(tenant), /*waiting=*/false, std::nullopt, absl::OkStatus(),
               absl::ZeroDuration());
}

absl::StatusOr<Tenants::Place> Tenants::AdmitRead(absl::string_view name_space) {
  std::variant<Place, Refusal> taken = TakeForRead(name_space);
  if (Place* const place = std::get_if<Place>(&taken)) return std::move(*place);
  return Report(name_space, std::get<Refusal>(std::move(taken)));
}

absl::StatusOr<Tenants::Place> Tenants::AdmitReadOfOne(
    const std::vector<std::string>& name_spaces) {
  if (name_spaces.empty()) return Place();
  std::optional<Refusal> refusal;
  for (const std::string& name_space : name_spaces) {
    std::variant<Place, Refusal> taken = TakeForRead(name_space);
    if (Place* const place = std::get_if<Place>(&taken)) return std::move(*place);
    refusal = std::get<Refusal>(std::move(taken));
  }
  return Report(name_spaces.back(), *std::move(refusal));
}

absl::Duration Tenants::WindowOf(const RecordKey& key, const NamespaceSettings& settings) const {
  const absl::Time not_before =
      std::max(absl::FromUnixNanos(not_before_.load(std::memory_order_acquire)),
               settings.not_before.value_or(absl::InfinitePast()));
  // No key was made before it.
  if (not_before <= absl::UnixEpoch()) return settings.window;
  const std::optional<absl::Time> made = KeyTime(key);
  return made.has_value() && *made < not_before ? kNoWindow : settings.window;
}

absl::StatusOr<Tenants::Place> Tenants::AdmitReservation(ReserveOp& op, const StatedTerms& stated,
                                                         absl::Duration& max_wait) {
  std::shared_ptr<Tenant> tenant = Find(op.key.name_space);
  if (tenant == nullptr) {
    op.window = WindowOf(op.key, NamespaceSettings());
    return Place();
  }
  bool waits = max_wait > absl::ZeroDuration();
  std::optional<QuotaLimit> reached;
  absl::Status out_of_bounds;
  absl::Duration life;
  {
    MutexLock lock(tenant->mutex);
    const std::shared_ptr<const NamespaceSettings> snapshot = tenant->settings;
    const NamespaceSettings& settings = *snapshot;
    SetRetention(settings, stated, op);
    out_of_bounds = BoundRetention(settings, op);
    op.window = WindowOf(op.key, settings);
    if (std::optional<Refusal> refusal = Take(*tenant, settings, op.key.name_space)) {
      return Report(op.key.name_space, *std::move(refusal));
    }
    if (waits && settings.max_waiting.has_value() && tenant->waiting >= *settings.max_waiting) {
      observer_.QuotaExceeded(op.key.name_space, QuotaLimit::kWaiting);
      max_wait = absl::ZeroDuration();
      waits = false;
    }
    if (waits) ++tenant->waiting;
    reached = ReachedQuota(*tenant, settings);
    if (reached) tenant->reached = true;
    if (HasQuota(settings)) life = LifeOf(op, clock_.Now());
  }
  op.only_existing = reached.has_value() || !out_of_bounds.ok();
  return Place(std::move(tenant), waits, reached, std::move(out_of_bounds), life);
}

std::optional<QuotaLimit> Tenants::ReachedQuota(Tenant& tenant, const NamespaceSettings& settings) {
  if (!HasQuota(settings) || !tenant.measured.has_value()) return std::nullopt;
  const NamespaceUsage added = tenant.added.At(tenant.clock.Monotonic());
  const auto is_reached = [](const std::optional<std::int64_t>& most, std::int64_t used) {
    return most.has_value() && used >= *most;
  };
  if (is_reached(settings.max_records, tenant.measured->records + added.records)) {
    return QuotaLimit::kRecords;
  }
  if (is_reached(settings.max_reply_bytes, tenant.measured->reply_bytes + added.reply_bytes)) {
    return QuotaLimit::kReplyBytes;
  }
  return std::nullopt;
}

std::map<std::string, absl::Duration> Tenants::UnknownLives() const {
  std::map<std::string, absl::Duration> lives;
  MutexLock lock(mutex_);
  for (const auto& [name, tenant] : tenants_) {
    MutexLock tenant_lock(tenant->mutex);
    if (tenant->settings->unknown_life) lives.emplace(name, *tenant->settings->unknown_life);
  }
  return lives;
}

absl::Status Tenants::RefuseRecord(absl::string_view name_space, QuotaLimit reached) const {
  observer_.QuotaExceeded(name_space, reached);
  return Exceeded(name_space,
                  reached == QuotaLimit::kRecords ? "number of records" : "bytes of replies",
                  retry_delays::kStoredUsage);
}

absl::Status Tenants::RefuseRetention(absl::string_view name_space, const Place& place) const {
  observer_.QuotaExceeded(name_space, QuotaLimit::kRetention);
  return place.out_of_bounds();
}

void Tenants::CountFor(absl::Duration life, const NamespaceUsage& more, Tenant& tenant) {
  if (!HasQuota(*tenant.settings)) return;
  const auto now = tenant.clock.Monotonic();
  for (RecentUsage* const sum : {&tenant.added, &tenant.added_since_begin}) {
    sum->Add(more, now, life);
  }
}

void Tenants::CountReply(absl::string_view name_space, std::size_t bytes) {
  const std::shared_ptr<Tenant> tenant = Find(name_space);
  if (tenant == nullptr) return;
  MutexLock lock(tenant->mutex);
  // The record's own life is not known here.
  const NamespaceSettings& settings = *tenant->settings;
  const absl::Duration life = tenant->longest_life > absl::ZeroDuration()
                                  ? tenant->longest_life
                                  : std::max(settings.max_retention, settings.window);
  CountFor(life, {0, static_cast<std::int64_t>(bytes)}, *tenant);
}

std::vector<std::string> Tenants::Names() const {
  std::vector<std::string> names;
  {
    MutexLock lock(mutex_);
    for (const auto& [name, tenant] : tenants_) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<Tenants::Quota> Tenants::Quotas() const {
  constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  std::vector<Quota> quotas;
  MutexLock lock(mutex_);
  for (const auto& [name, tenant] : tenants_) {
    MutexLock tenant_lock(tenant->mutex);
    const NamespaceSettings& settings = *tenant->settings;
    if (!HasQuota(settings)) continue;
    quotas.push_back(
        {name,
         {settings.max_records.value_or(kNone), settings.max_reply_bytes.value_or(kNone)},
         tenant->reached});
  }
  std::sort(quotas.begin(), quotas.end(),
            [](const Quota& a, const Quota& b) { return a.name_space < b.name_space; });
  return quotas;
}

void Tenants::BeginMeasurement(absl::string_view name_space) {
  const std::shared_ptr<Tenant> tenant = Find(name_space);
  if (tenant == nullptr) return;
  MutexLock lock(tenant->mutex);
  tenant->added_since_begin.Clear();
}

void Tenants::EndMeasurement(absl::string_view name_space, const NamespaceUsage& usage) {
  const std::shared_ptr<Tenant> tenant = Find(name_space);
  if (tenant == nullptr) return;
  MutexLock lock(tenant->mutex);
  tenant->measured = usage;
  tenant->added = tenant->added_since_begin;
  tenant->reached = false;
  observer_.UsageMeasured(name_space, usage);
}

}  // namespace idempotency::internal
