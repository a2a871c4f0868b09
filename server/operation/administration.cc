#include "server/operation/administration.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "core/utf8.h"
#include "core/wire_time.h"
#include "grpc_idempotency/errors.h"
#include "server/limits.h"
#include "server/operation/failed_read.h"
#include "server/operation/page_token.h"
#include "server/operation/wire_request.h"
#include "server/operation/wire_response.h"
#include "server/store/limits.h"
#include "server/store/state_numbers.h"

namespace idempotency::internal {
namespace {

// The shortest pause between two steps of a purge or a reseal: other transactions get their turn
// also where a step takes no time.
constexpr absl::Duration kMinStepPause = absl::Milliseconds(5);

// The caller's name, fit for the audit log.
absl::StatusOr<std::string> ActorOf(const AdminCaller& caller, const std::string& name_space) {
  absl::StatusOr<std::string> actor = caller.authorize(name_space);
  if (!actor.ok()) return actor;
  if (actor->empty() || actor->size() > limits::kMaxActorBytes || !IsUtf8WithoutControls(*actor)) {
    return absl::PermissionDeniedError(
        "the caller's name cannot be written to the audit log: it is empty, longer than 255 "
        "bytes, or not text; change the identity of the caller");
  }
  return actor;
}

void Write(const AuditEntry& entry, v1::AuditEntry& proto) {
  proto.set_sequence(entry.sequence);
  ToWire(entry.at, *proto.mutable_at());
  proto.set_actor(ToUtf8(entry.note.actor));
  proto.set_reason(ToUtf8(entry.note.reason));
  proto.set_action(static_cast<v1::AuditAction>(entry.action));
  proto.set_forced(entry.forced);
  proto.set_record_id(entry.record_id.ToString());
  proto.set_namespace_(ToUtf8(entry.name_space));
  proto.set_key_hmac(entry.key_hmac.data(), entry.key_hmac.size());
  proto.set_state(ToProto(entry.state));
  proto.set_attempt(entry.attempt);
  proto.set_records(entry.records);
}

void Add(const ResealStep& step, ResealStep& sum) {
  sum.examined += step.examined;
  sum.resealed.insert(sum.resealed.end(), step.resealed.begin(), step.resealed.end());
  sum.current += step.current;
  sum.unsealed += step.unsealed;
  sum.damaged.insert(sum.damaged.end(), step.damaged.begin(), step.damaged.end());
  sum.busy += step.busy;
  sum.sealing_key_id = step.sealing_key_id;
  for (const auto& [key_id, use] : step.key_uses) {
    sum.key_uses[key_id].contents += use.contents;
    sum.key_uses[key_id].fingerprints += use.fingerprints;
  }
}

void Write(const ResealStep& sum, v1::ResealResponse& response) {
  response.set_examined(sum.examined);
  response.set_resealed(static_cast<std::int64_t>(sum.resealed.size()));
  response.set_current(sum.current);
  response.set_unsealed(sum.unsealed);
  response.set_damaged(static_cast<std::int64_t>(sum.damaged.size()));
  for (const RecordId& id : sum.damaged) {
    if (response.damaged_record_ids_size() == limits::kMaxDamagedNamed) break;
    response.add_damaged_record_ids(id.ToString());
  }
  response.set_busy(sum.busy);
  response.set_sealing_key_id(sum.sealing_key_id);
  for (const auto& [key_id, use] : sum.key_uses) {
    v1::SealingKeyUse& written = *response.add_key_uses();
    written.set_key_id(key_id);
    written.set_contents(use.contents);
    written.set_fingerprints(use.fingerprints);
  }
}

}  // namespace

absl::StatusOr<Administration::Authorised> Administration::Authorise(RecordTarget target,
                                                                     const AdminCaller& caller) {
  if (target.key) {
    absl::StatusOr<std::string> actor = ActorOf(caller, target.key->name_space);
    if (!actor.ok()) return actor.status();
    return Authorised{*std::move(target.key), *std::move(actor)};
  }
  const GetOp get{target.id, std::nullopt};
  absl::StatusOr<Record> record = std::move(records_.Get({&get, 1}).front());
  if (!record.ok()) {
    // A damaged one belongs to no namespace that could be trusted.
    return FailureWithoutNamespace(record.status());
  }
  absl::StatusOr<std::string> actor = ActorOf(caller, record->key.name_space);
  if (!actor.ok()) return NoSuchRecord();
  return Authorised{std::move(record->key), *std::move(actor)};
}

void Administration::Refused(const absl::Status& why, Caller& caller,
                             const std::string& name_space) {
  if (!absl::IsUnauthenticated(why) && !absl::IsPermissionDenied(why)) return;
  observer_.CallerRefused({why, caller.Name().value_or(std::string()), name_space, caller.peer(),
                           /*is_administration=*/true});
}

absl::StatusOr<v1::GetResponse> Administration::Get(
    const v1::GetRequest& request, const std::function<absl::Status(const RecordKey&)>& permitted,
    bool reads_everywhere) {
  const absl::StatusOr<GetOp> op = GetOpFrom(request);
  if (!op.ok()) return op.status();
  if (op->key) {
    if (absl::Status refused = permitted(*op->key); !refused.ok()) return refused;
  }
  const absl::StatusOr<Record> record = std::move(records_.Get({&*op, 1}).front());
  if (!record.ok()) {
    return op->key || reads_everywhere ? record.status() : FailureWithoutNamespace(record.status());
  }
  if (!permitted(record->key).ok()) return NoSuchRecord();
  v1::GetResponse response;
  const absl::Status written =
      WriteRecord(*record, v1::RECORD_VIEW_BASIC, *response.mutable_record());
  if (!written.ok()) return written;
  return response;
}

absl::StatusOr<v1::ListResponse> Administration::List(const v1::ListRequest& request,
                                                      const AdminCaller& caller) {
  const absl::StatusOr<ListOp> op = ListOpFrom(request);
  if (!op.ok()) return op.status();
  const absl::StatusOr<std::string> actor = ActorOf(caller, op->name_space);
  if (!actor.ok()) return actor.status();
  const absl::StatusOr<RecordPage> page = store_.List(*op);
  if (!page.ok()) return page.status();
  v1::ListResponse response;
  for (const Record& record : page->records) {
    const absl::Status written =
        WriteRecord(record, v1::RECORD_VIEW_BASIC, *response.add_records());
    if (!written.ok()) return written;
  }
  response.set_next_page_token(PageTokenFor(request, page->next));
  response.set_damaged(page->damaged);
  return response;
}

absl::StatusOr<v1::ResolveResponse> Administration::Resolve(const v1::ResolveRequest& request,
                                                            const AdminCaller& caller) {
  absl::StatusOr<ResolveOp> op = ResolveOpFrom(request);
  if (!op.ok()) return op.status();
  absl::StatusOr<Authorised> record = Authorise(*RecordOf(request), caller);
  if (!record.ok()) return record.status();
  op->key = std::move(record->key);
  op->id = RecordIdFor(op->key);
  op->note.actor = std::move(record->actor);
  const absl::StatusOr<Resolution> resolution = store_.Resolve(*op);
  if (!resolution.ok()) return resolution.status();
  if (!op->validate_only && !resolution->repeated) {
    waiters_.OnRecordChanged(op->id);
    AdminAct act;
    act.action = op->reply ? AuditAction::kResolvedCompleted : AuditAction::kResolvedReleased;
    act.note = op->note;
    act.name_space = op->key.name_space;
    act.forced = op->force;
    act.records = {op->id};
    act.key_hmac = resolution->key_hmac;
    observer_.AdminActed(act);
  }
  v1::ResolveResponse response;
  response.set_record_id(op->id.ToString());
  response.set_previous_state(ToProto(resolution->before));
  response.set_state(ToProto(resolution->state));
  response.set_attempt(resolution->attempt);
  ToWire(resolution->expires_at, *response.mutable_expires_at());
  response.set_repeated(resolution->repeated);
  return response;
}

absl::StatusOr<v1::PurgeResponse> Administration::Purge(const v1::PurgeRequest& request,
                                                        const AdminCaller& caller) {
  absl::StatusOr<PurgeOp> op = PurgeOpFrom(request);
  if (!op.ok()) return op.status();
  if (std::optional<RecordTarget> target = RecordOf(request)) {
    absl::StatusOr<Authorised> record = Authorise(*std::move(target), caller);
    if (!record.ok()) return record.status();
    op->name_space = record->key.name_space;
    op->key = std::move(record->key);
    op->note.actor = std::move(record->actor);
  } else {
    absl::StatusOr<std::string> actor = ActorOf(caller, op->name_space);
    if (!actor.ok()) return actor.status();
    op->note.actor = *std::move(actor);
  }
  return PurgeSteps(request, *std::move(op), caller);
}

absl::StatusOr<v1::PurgeResponse> Administration::PurgeSteps(const v1::PurgeRequest& request,
                                                             PurgeOp op,
                                                             const AdminCaller& caller) {
  const auto end = clock_.Monotonic() + absl::ToChronoNanoseconds(limits::kPurgeCallTime);
  v1::PurgeResponse response;
  bool any = false;
  while (true) {
    const auto begun = clock_.Monotonic();
    const absl::StatusOr<PurgeStep> step = store_.Purge(op);
    // What was done before is reported; the caller continues, and meets the failure then.
    if (!step.ok() && !any) return step.status();
    if (!step.ok()) break;
    any = true;
    if (!op.validate_only) Report(op, *step);
    response.set_purged(response.purged() + static_cast<std::int64_t>(step->purged.size()));
    response.set_refused(response.refused() + step->refused);
    response.set_busy(response.busy() + step->busy);
    if (op.key) {
      response.set_previous_state(ToProto(step->before));
      response.set_attempt(step->attempt);
    }
    op.after = step->next;
    if (!op.after || !MayContinue(begun, end, caller)) break;
  }
  response.set_next_page_token(PageTokenFor(request, op.after));
  return response;
}

bool Administration::MayContinue(std::chrono::steady_clock::time_point begun,
                                 std::chrono::steady_clock::time_point end,
                                 const AdminCaller& caller) {
  const auto now = clock_.Monotonic();
  const absl::Duration rest = std::max(absl::FromChrono(now - begun), kMinStepPause);
  return now < end && !caller.gone() && caller.pause(rest);
}

void Administration::Report(const PurgeOp& op, const PurgeStep& step) {
  if (step.purged.empty()) return;
  for (const RecordId& id : step.purged) waiters_.OnRecordChanged(id);
  AdminAct act;
  act.action =
      op.tombstone > absl::ZeroDuration() ? AuditAction::kPurgedToTombstone : AuditAction::kPurged;
  act.note = op.note;
  act.name_space = op.name_space;
  act.forced = op.force;
  act.records = step.purged;
  if (op.key) act.key_hmac = step.key_hmac;
  observer_.AdminActed(act);
}

absl::StatusOr<v1::ResealResponse> Administration::Reseal(const v1::ResealRequest& request,
                                                          const AdminCaller& caller) {
  absl::StatusOr<ResealOp> op = ResealOpFrom(request);
  if (!op.ok()) return op.status();
  absl::StatusOr<std::string> actor = ActorOf(caller, op->name_space);
  if (!actor.ok()) return actor.status();
  op->note.actor = *std::move(actor);
  const auto end = clock_.Monotonic() + absl::ToChronoNanoseconds(limits::kResealCallTime);
  ResealStep sum;
  bool any = false;
  while (true) {
    const auto begun = clock_.Monotonic();
    const absl::StatusOr<ResealStep> step = store_.Reseal(*op);
    // What was done before is reported; the caller continues, and meets the failure then.
    if (!step.ok() && !any) return step.status();
    if (!step.ok()) break;
    any = true;
    if (!op->validate_only) Report(*op, *step);
    Add(*step, sum);
    op->after = step->next;
    if (!op->after || !MayContinue(begun, end, caller)) break;
  }
  v1::ResealResponse response;
  Write(sum, response);
  response.set_next_page_token(PageTokenFor(request, op->after));
  return response;
}

void Administration::Report(const ResealOp& op, const ResealStep& step) {
  if (step.resealed.empty()) return;
  AdminAct act;
  act.action = AuditAction::kResealed;
  act.note = op.note;
  act.name_space = op.name_space;
  act.records = step.resealed;
  observer_.AdminActed(act);
}

absl::StatusOr<v1::ListAuditResponse> Administration::ListAudit(const v1::ListAuditRequest& request,
                                                                const AdminCaller& caller) {
  const absl::StatusOr<AuditOp> op = AuditOpFrom(request);
  if (!op.ok()) return op.status();
  const absl::StatusOr<std::string> actor = ActorOf(caller, op->name_space);
  if (!actor.ok()) return actor.status();
  const absl::StatusOr<AuditPage> page = store_.ReadAudit(*op);
  if (!page.ok()) return page.status();
  v1::ListAuditResponse response;
  for (const AuditEntry& entry : page->entries) Write(entry, *response.add_entries());
  response.set_next_page_token(PageTokenFor(request, page->next));
  return response;
}

}  // namespace idempotency::internal
