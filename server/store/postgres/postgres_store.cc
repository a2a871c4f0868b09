#include "server/store/postgres/postgres_store.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "core/clock.h"
#include "grpc_idempotency/errors.h"
#include "server/store/postgres/batched/admin.h"
#include "server/store/postgres/batched/maintenance.h"
#include "server/store/postgres/batched/read.h"
#include "server/store/postgres/batched/reseal.h"
#include "server/store/postgres/batched/reserve.h"
#include "server/store/postgres/batched/rows.h"
#include "server/store/postgres/batched/settle.h"
#include "server/store/postgres/batched/shared_commit.h"
#include "server/store/postgres/batched/sweep.h"
#include "server/store/postgres/held_connection.h"
#include "server/store/postgres/single_row/admin.h"
#include "server/store/postgres/single_row/maintenance.h"
#include "server/store/postgres/single_row/orphans.h"
#include "server/store/postgres/single_row/reseal.h"
#include "server/store/postgres/single_row/reserve.h"
#include "server/store/postgres/single_row/settle.h"
#include "server/store/postgres/single_row/sweep.h"

namespace idempotency::internal {
namespace {

// From this share on a round that reads first is cheaper (1.2 times at 95 %
// replays, more on hot keys; the insert alone is cheaper while most keys are
// new).
constexpr int kReadFirstPermille = 500;

DatabaseConnectionPoolOptions PoolOptions(const PostgresOptions& options) {
  DatabaseConnectionPoolOptions pool;
  pool.size = options.connections;
  pool.acquire_timeout = options.acquire_timeout;
  pool.min_backoff = options.min_backoff;
  pool.max_backoff = options.max_backoff;
  return pool;
}

// Whether an answer means that something was written for it durably, and not merely read.
bool IsWritten(const Verdict& verdict) {
  const auto* const reserved = std::get_if<Reserved>(&verdict);
  return reserved != nullptr && !reserved->repeated && !reserved->relaxed;
}
bool IsWritten(const Completion& completion) { return !completion.repeated; }
bool IsWritten(const Extension&) { return true; }

// Whether the server ended the statement, or met a lock, a page that it cannot read or a bound of
// its memory or its temporary files: another statement may succeed.
bool LeavesGaugesAsTheyWere(const absl::Status& failure) {
  return IsLeftAlone(failure) || IsUnreadable(failure) || IsInsufficientResources(failure);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PostgresStore>> PostgresStore::Create(
    const PostgresOptions& options) {
  if (absl::Status status = ValidatePostgresOptions(options); !status.ok()) return status;
  return std::unique_ptr<PostgresStore>(new PostgresStore(options));  // private constructor
}

PostgresStore::PostgresStore(const PostgresOptions& options)
    : options_(options),
      statements_(options.clock_sql),
      single_row_statements_(options.clock_sql),
      connections_(options_, statements_, watchdog_),
      locked_rows_(options.locked_pause),
      unreadable_(options.unreadable_pause),
      pool_(PoolOptions(options), Clock::System(), [this] { return connections_.Open(); }) {
  if (!options_.maintenance_url.empty()) maintenance_.emplace(options_, statements_, watchdog_);
}

PostgresStore::Maintenance::Maintenance(const PostgresOptions& of,
                                        const PostgresStatements& statements,
                                        SocketWatchdog& watchdog)
    : options(MaintenanceOptions(of)),
      connections(options, statements, watchdog),
      pool(PoolOptions(options), Clock::System(), [this] { return connections.Open(); }) {}

DatabaseConnectionPoolGauges PostgresStore::connections() const {
  DatabaseConnectionPoolGauges all = pool_.gauges();
  if (!maintenance_) return all;
  const DatabaseConnectionPoolGauges maintenance = maintenance_->pool.gauges();
  all.in_use += maintenance.in_use;
  all.idle += maintenance.idle;
  all.broken += maintenance.broken;
  return all;
}

absl::StatusOr<PostgresStore::Pool::Lease> PostgresStore::Acquire() {
  if (absl::Status served = connections_.served(); !served.ok()) return served;
  return pool_.Acquire();
}

absl::StatusOr<PostgresStore::Pool::Lease> PostgresStore::AcquireForMaintenance() {
  if (!maintenance_) return Acquire();
  // Inspections keep it up to date, which do not use the other login.
  if (absl::Status served = connections_.served(); !served.ok()) return served;
  return maintenance_->pool.Acquire();
}

void PostgresStore::NoteCommit() {
  committed_at_.store(
      std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1),
      std::memory_order_relaxed);
}

template <typename Answer>
void PostgresStore::NoteCommits(const std::vector<absl::StatusOr<Answer>>& answers) {
  const auto is_written = [](const absl::StatusOr<Answer>& answer) {
    return answer.ok() && IsWritten(*answer);
  };
  if (std::any_of(answers.begin(), answers.end(), is_written)) NoteCommit();
}

absl::Status PostgresStore::ProveCommits(PostgresConnection& connection) {
  const std::chrono::nanoseconds last(committed_at_.load(std::memory_order_relaxed));
  const auto since = std::chrono::steady_clock::now().time_since_epoch() - last;
  if (absl::FromChrono(since) < options_.commit_proof) return absl::OkStatus();
  const auto written = connection.Execute(statements_.probe_commit, {}, options_.probe_timeout);
  if (!written.ok()) return written.status();
  NoteCommit();
  return absl::OkStatus();
}

template <typename Op, typename Answer, typename Run>
std::vector<Answer> PostgresStore::WithConnection(PostgresBatch<Op, Answer>& batch, Run run) {
  const absl::StatusOr<Pool::Lease> connection = Acquire();
  if (connection.ok()) {
    run(**connection);
  } else {
    batch.FailAll(batch.All(), connection.status());
  }
  return std::move(batch).Take();
}

template <typename Batch, typename Round>
void PostgresStore::AnswerInRounds(PostgresConnection& connection, Batch& batch, Round& round) {
  RunRoundsOn(connection, statements_, batch, round);
  locked_rows_.Add(batch.locked());
}

template <typename Op, typename Answer>
std::vector<Answer> PostgresStore::OnConnection(
    absl::Span<const Op> ops,
    absl::Status (*round)(PostgresConnection&, const PostgresStatements&,
                          PostgresBatch<Op, Answer>&, const std::vector<std::size_t>&),
    absl::Status (*single_row_round)(SingleRowRecords&, PostgresBatch<Op, Answer>&,
                                     const std::vector<std::size_t>&)) {
  if (ops.empty()) return {};
  PostgresBatch<Op, Answer> batch(ops);
  return WithConnection(batch, [&](PostgresConnection& connection) {
    SingleRowRecords records = RecordsOf(connection);
    auto on_this = [&](const std::vector<std::size_t>& pending) {
      if (in_single_rows()) return single_row_round(records, batch, pending);
      return round(connection, statements_, batch, pending);
    };
    // Reading does not wait.
    if constexpr (!std::is_same_v<Op, GetOp>) locked_rows_.SetAside(batch);
    AnswerInRounds(connection, batch, on_this);
  });
}

std::vector<absl::StatusOr<Verdict>> PostgresStore::Reserve(absl::Span<const ReserveOp> ops) {
  if (ops.empty()) return {};
  ReserveBatch batch(ops);
  const auto run = [&](PostgresConnection& connection, auto& reserve) {
    locked_rows_.SetAside(batch);
    AnswerInRounds(connection, batch, reserve);
    NoteKnown(reserve.known(), ops.size());
  };
  std::vector<absl::StatusOr<Verdict>> answers =
      WithConnection(batch, [&](PostgresConnection& connection) {
        if (in_single_rows()) {
          SingleRowReserve reserve(RecordsOf(connection), batch, ReadsFirst());
          run(connection, reserve);
        } else {
          BatchedReserve reserve(connection, statements_, batch, ReadsFirst());
          run(connection, reserve);
        }
      });
  NoteCommits(answers);
  return answers;
}

std::vector<absl::StatusOr<Verdict>> PostgresStore::Finish(PostgresConnection& connection,
                                                           ReserveBatch& batch,
                                                           BatchedReserve& reserve) {
  AnswerInRounds(connection, batch, reserve);
  NoteKnown(reserve.known(), batch.size());
  std::vector<absl::StatusOr<Verdict>> answers = std::move(batch).Take();
  NoteCommits(answers);
  return answers;
}

std::vector<absl::StatusOr<Completion>> PostgresStore::Finish(PostgresConnection& connection,
                                                              CompleteBatch& batch) {
  const auto round = [&](const CompleteBatch::Indices& pending) {
    return CompleteRound(connection, statements_, batch, pending);
  };
  AnswerInRounds(connection, batch, round);
  std::vector<absl::StatusOr<Completion>> answers = std::move(batch).Take();
  NoteCommits(answers);
  return answers;
}

std::unique_ptr<HeldConnection> PostgresStore::Hold(std::function<void()> wanted) {
  if (in_single_rows() || !connections_.schema().ok()) return nullptr;
  std::optional<Pool::Lease> lease = pool_.TryAcquire();
  if (!lease) return nullptr;
  if (!lease->Offer(std::move(wanted))) return nullptr;
  return std::make_unique<PostgresHeldConnection>(*this, *std::move(lease));
}

bool PostgresStore::ReadsFirst() const {
  return known_permille_.load(std::memory_order_relaxed) >= kReadFirstPermille;
}

void PostgresStore::NoteKnown(std::size_t known, std::size_t of) {
  // Concurrent updates may overwrite one another; the mean tolerates that.
  const int seen = static_cast<int>(1000 * known / of);
  const int mean = known_permille_.load(std::memory_order_relaxed);
  known_permille_.store((7 * mean + seen) / 8, std::memory_order_relaxed);
}

std::vector<absl::StatusOr<Completion>> PostgresStore::Complete(absl::Span<const CompleteOp> ops) {
  std::vector<absl::StatusOr<Completion>> answers =
      OnConnection(ops, &CompleteRound, &SingleRowCompleteRound);
  NoteCommits(answers);
  return answers;
}

SharedAnswers PostgresStore::CompleteAndReserve(absl::Span<const CompleteOp> completions,
                                                absl::Span<const ReserveOp> reservations) {
  if (in_single_rows() || ReadsFirst() || !SharedCommit::Pays(completions, reservations)) {
    return RecordStore::CompleteAndReserve(completions, reservations);
  }
  CompleteBatch completing(completions);
  ReserveBatch reserving(reservations);
  const absl::StatusOr<Pool::Lease> connection = Acquire();
  if (!connection.ok()) {
    completing.FailAll(completing.All(), connection.status());
    reserving.FailAll(reserving.All(), connection.status());
    return {std::move(completing).Take(), std::move(reserving).Take()};
  }
  BatchedReserve reserve(**connection, statements_, reserving, /*read_first=*/false);
  locked_rows_.SetAside(completing);
  locked_rows_.SetAside(reserving);
  SharedCommit(**connection, statements_).Run(completing, reserving, reserve);
  locked_rows_.Add(completing.locked());
  locked_rows_.Add(reserving.locked());
  NoteKnown(reserve.known(), reservations.size());
  SharedAnswers answers{std::move(completing).Take(), std::move(reserving).Take()};
  NoteCommits(answers.completions);
  NoteCommits(answers.verdicts);
  return answers;
}

std::vector<absl::Status> PostgresStore::Release(absl::Span<const ReleaseOp> ops) {
  return OnConnection(ops, &ReleaseRound, &SingleRowReleaseRound);
}

std::vector<absl::StatusOr<Extension>> PostgresStore::Extend(absl::Span<const ExtendOp> ops) {
  std::vector<absl::StatusOr<Extension>> answers =
      OnConnection(ops, &ExtendRound, &SingleRowExtendRound);
  NoteCommits(answers);
  return answers;
}

std::vector<absl::StatusOr<Record>> PostgresStore::Get(absl::Span<const GetOp> ops) {
  return OnConnection(ops, &GetRound, &SingleRowGetRound);
}

template <typename SingleRow, typename Batched, typename Call>
auto PostgresStore::Maintain(Call call) -> decltype(call(std::declval<Batched&>())) {
  const absl::StatusOr<Pool::Lease> connection = AcquireForMaintenance();
  if (!connection.ok()) return connection.status();
  if (in_single_rows()) {
    SingleRow records(RecordsOf(**connection));
    return call(records);
  }
  Batched records(**connection, statements_, unreadable_);
  return call(records);
}

absl::Status PostgresStore::CheckClock() {
  const absl::StatusOr<Pool::Lease> connection = AcquireForMaintenance();
  if (!connection.ok()) return connection.status();
  const auto read = (*connection)->Execute(statements_.read_clock, {});
  if (!read.ok()) return ToCallerStatus(read.status());
  const absl::Duration ahead = read->Time(0, 0) - absl::Now();
  if (ahead <= options_.max_clock_ahead) return absl::OkStatus();
  return MakeError(
      Reason::kStoreUnavailable,
      absl::StrCat("the clock of the database server is ",
                   absl::FormatDuration(absl::Trunc(ahead, absl::Seconds(1))),
                   " ahead of this machine's: no record is removed, since it may be before its "
                   "time. Set both clocks right"));
}

absl::StatusOr<SweepProgress> PostgresStore::Sweep(const SweepOp& op) {
  if (const absl::Status clock = CheckClock(); !clock.ok()) return clock;
  const absl::StatusOr<SweepProgress> progress =
      Maintain<SingleRowSweep, BatchedSweep>([&op](auto& sweep) { return sweep.Step(op); });
  const bool is_last = progress.ok() && !progress->next && !progress->too_slow;
  if (in_single_rows() && is_last) RemoveOrphans();
  return progress;
}

void PostgresStore::RemoveOrphans() {
  const absl::StatusOr<Pool::Lease> connection = AcquireForMaintenance();
  // The next pass continues here.
  if (!connection.ok()) return;
  MutexLock lock(orphans_mutex_);
  const auto next = SingleRowOrphans(RecordsOf(**connection)).Step(orphans_after_);
  if (next.ok()) orphans_after_ = *next;
}

absl::StatusOr<RecordPage> PostgresStore::List(const ListOp& op) {
  return Maintain<SingleRowAdmin, BatchedAdmin>([&op](auto& admin) { return admin.List(op); });
}

absl::StatusOr<Resolution> PostgresStore::Resolve(const ResolveOp& op) {
  return Maintain<SingleRowAdmin, BatchedAdmin>([&op](auto& admin) { return admin.Resolve(op); });
}

absl::StatusOr<PurgeStep> PostgresStore::Purge(const PurgeOp& op) {
  return Maintain<SingleRowAdmin, BatchedAdmin>([&op](auto& admin) { return admin.Purge(op); });
}

absl::StatusOr<ResealStep> PostgresStore::Reseal(const ResealOp& op) {
  if (op.sealer == nullptr) return NothingIsSealed();
  return Maintain<SingleRowReseal, BatchedReseal>([&op](auto& reseal) { return reseal.Step(op); });
}

absl::StatusOr<AuditPage> PostgresStore::ReadAudit(const AuditOp& op) {
  const absl::StatusOr<Pool::Lease> connection = AcquireForMaintenance();
  if (!connection.ok()) return connection.status();
  return BatchedAdmin(**connection, statements_, unreadable_).ReadAudit(op);
}

absl::StatusOr<UsageStep> PostgresStore::MeasureUsage(const UsageOp& op) {
  return Maintain<SingleRowMaintenance, BatchedMaintenance>(
      [&op](auto& maintenance) { return maintenance.MeasureUsage(op); });
}

absl::StatusOr<EndUnknownStep> PostgresStore::EndUnknown(const EndUnknownOp& op) {
  if (const absl::Status clock = CheckClock(); !clock.ok()) return clock;
  return Maintain<SingleRowMaintenance, BatchedMaintenance>(
      [&op](auto& maintenance) { return maintenance.EndUnknown(op); });
}

absl::StatusOr<StoreGauges> PostgresStore::InspectSingleRows(PostgresConnection& connection) {
  StoreGauges gauges;
  const absl::Status read = SingleRowMaintenance(RecordsOf(connection)).Inspect(gauges);
  if (!read.ok() && connection.lost()) return read;
  return NoteGauges(read, gauges);
}

// Whether completions are durable is proved by then, and the gauges do not show it: those of
// before, or none, are the answer. Where nothing is written, the read is the proof.
absl::StatusOr<StoreGauges> PostgresStore::NoteGauges(const absl::Status& read,
                                                      const StoreGauges& gauges) {
  if (!read.ok() && options_.read_only) return read;
  MutexLock lock(gauges_mutex_);
  if (gauges.oldest_reserved_age) gauges_.oldest_reserved_age = gauges.oldest_reserved_age;
  if (gauges.unknown_records) gauges_.unknown_records = gauges.unknown_records;
  gauges_.read = read.ok();
  return gauges_;
}

absl::StatusOr<StoreGauges> PostgresStore::Inspect() {
  const absl::StatusOr<Pool::Lease> connection = pool_.Acquire();
  if (!connection.ok()) {
    const absl::Status served = connections_.served();
    return served.ok() ? connection.status() : served;
  }
  if (absl::Status schema = connections_.CheckSchema(**connection); !schema.ok()) {
    return connections_.schema().ok() ? ToCallerStatus(schema) : schema;
  }
  if (absl::Status nodes = connections_.CheckNodes(**connection); !nodes.ok()) return nodes;
  if (absl::Status proved = options_.read_only ? absl::OkStatus() : ProveCommits(**connection);
      !proved.ok()) {
    return ToCallerStatus(proved);
  }
  if (in_single_rows()) return InspectSingleRows(**connection);
  const absl::StatusOr<StoreGauges> read =
      BatchedMaintenance(**connection, statements_, unreadable_).Inspect();
  if (read.ok()) return NoteGauges(absl::OkStatus(), *read);
  const absl::Status answer = ToCallerStatus(read.status());
  return LeavesGaugesAsTheyWere(read.status()) ? NoteGauges(answer, {}) : answer;
}

}  // namespace idempotency::internal
