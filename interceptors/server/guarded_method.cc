#include "interceptors/server/guarded_method.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>
#include <vector>

#include "core/errors.h"
#include "core/fingerprint.h"
#include "core/idempotency_key.h"
#include "core/record_key.h"
#include "interceptors/server/call_table.h"
#include "interceptors/server/record_metadata.h"
#include "interceptors/server/rejection.h"
#include "interceptors/server/wire_time.h"

namespace idempotency {
namespace {

std::vector<std::string_view> KeysOf(const grpc::ServerContextBase& context) {
  std::vector<std::string_view> values;
  const auto range =
      context.client_metadata().equal_range({kKeyMetadata.data(), kKeyMetadata.size()});
  for (auto entry = range.first; entry != range.second; ++entry) {
    values.emplace_back(entry->second.data(), entry->second.size());
  }
  return values;
}

v1::LeaseExpiry ToWire(MethodPolicy::OnLeaseExpiry on_lease_expiry) {
  return on_lease_expiry == MethodPolicy::OnLeaseExpiry::kRequireRecovery
             ? v1::LEASE_EXPIRY_REQUIRE_RECOVERY
             : v1::LEASE_EXPIRY_TAKE_OVER;
}

void Reject(HeldCall& held, const absl::Status& why, std::string_view record_id = {}) {
  held.Answer(RejectionReply(why, record_id));
}

}  // namespace

GuardedMethod::GuardedMethod(std::string path, std::string operation, MethodPolicy policy,
                             const GuardOptions& options, Reservations& reservations)
    : path_(std::move(path)),
      operation_(std::move(operation)),
      policy_(std::move(policy)),
      options_(options),
      reservations_(reservations) {}

void GuardedMethod::Admit(std::shared_ptr<HeldCall> held) {
  Call call{held, CallTable::Instance().Find(&held->context())};
  if (call.guarded == nullptr || !call.guarded->IsOf(reservations_)) {
    spdlog::error(
        "{}: the guard's interceptor is missing, so a reply could not be recorded; was "
        "SetInterceptorCreators called after ServerGuard::Install?",
        operation_);
    Reject(*held, absl::InternalError("the idempotency guard is not installed; nothing was run"));
    return;
  }
  const std::vector<std::string_view> values = KeysOf(held->context());
  if (values.empty() && policy_.key == MethodPolicy::Key::kOptional) {
    held->Run(nullptr);
    return;
  }
  absl::StatusOr<std::string> key = ParseIdempotencyKey(values);
  if (!key.ok()) {
    Reject(*held, key.status());
    return;
  }
  absl::StatusOr<v1::ReserveRequest> request = MakeRequest(*held, *std::move(key));
  if (!request.ok()) {
    Reject(*held, request.status());
    return;
  }
  v1::RecordKey record_key = request->record_key();
  reservations_.Request(*std::move(request), MaxWait(), VerdictDeadline(held->context()),
                        [this, call = std::move(call), record_key = std::move(record_key)](
                            const absl::StatusOr<ReservationAnswer>& answer) {
                          OnVerdict(call, record_key, answer);
                        });
}

absl::StatusOr<v1::ReserveRequest> GuardedMethod::MakeRequest(HeldCall& held,
                                                              std::string key) const {
  absl::StatusOr<std::string> scope = ScopeOf(held.context());
  if (!scope.ok()) return scope.status();
  const RecordKey record_key{options_.name_space, *std::move(scope), operation_, std::move(key)};
  const absl::Status valid = ValidateRecordKey(record_key);
  if (!valid.ok()) return valid;

  v1::ReserveRequest request;
  *request.mutable_record_key() = ToProto(record_key);
  *request.add_fingerprints() = ToProto(FingerprintV1(path_, held.request()));
  *request.mutable_lease() = idempotency::ToWire(policy_.lease);
  *request.mutable_retention() = idempotency::ToWire(policy_.retention);
  request.set_on_lease_expiry(ToWire(policy_.on_lease_expiry));
  return request;
}

absl::StatusOr<std::string> GuardedMethod::ScopeOf(const grpc::ServerContextBase& context) const {
  // The application's code; what it throws must not unwind through gRPC.
  try {
    return options_.scope(context);
  } catch (const std::exception& error) {
    spdlog::error("{}: the scope function threw: {}", operation_, error.what());
  } catch (...) {
    spdlog::error("{}: the scope function threw", operation_);
  }
  return absl::InternalError("the caller's scope could not be told; nothing was run");
}

absl::Duration GuardedMethod::MaxWait() const {
  return policy_.in_flight == MethodPolicy::InFlight::kWait ? policy_.max_wait
                                                            : absl::ZeroDuration();
}

Scheduler::Time GuardedMethod::VerdictDeadline(const grpc::ServerContextBase& context) const {
  const Scheduler::Time now = reservations_.Now();
  const Scheduler::Time own = now + absl::ToChronoNanoseconds(options_.verdict_timeout + MaxWait());
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return own;
  return std::min(own, now + std::chrono::duration_cast<Scheduler::Time::duration>(
                                 deadline - std::chrono::system_clock::now()));
}

void GuardedMethod::OnVerdict(const Call& call, const v1::RecordKey& record_key,
                              const absl::StatusOr<ReservationAnswer>& answer) const {
  if (!answer.ok()) {
    Reject(*call.held, answer.status());
    return;
  }
  const v1::ReserveResponse& verdict = answer->response;
  const absl::Status rejection = RejectionFor(verdict);
  if (!rejection.ok()) {
    if (verdict.has_mismatch()) {
      // A client's bug. The record's id leads to it; the key stays out of logs.
      spdlog::warn("{}: key reused with a different request, record {}", operation_,
                   verdict.record_id());
    }
    Reject(*call.held, rejection, verdict.record_id());
  } else if (verdict.has_replay()) {
    Replay(call, verdict);
  } else {
    Run(call, record_key, *answer);
  }
}

void GuardedMethod::Run(const Call& call, const v1::RecordKey& record_key,
                        const ReservationAnswer& answer) const {
  const v1::Reserved& reserved = answer.response.reserved();
  Recording::Grant grant;
  grant.record_key = record_key;
  grant.reservation_token = reserved.reservation_token();
  grant.lease = policy_.lease;
  grant.lease_deadline =
      answer.sent + absl::ToChronoNanoseconds(FromWire(reserved.lease_remaining()));
  call.guarded->Begin(*this, reservations_.Hold(std::move(grant)), reserved.attempt(),
                      answer.response.record_id(), FromWire(reserved.expires_at()));
  call.held->Run([guarded = call.guarded] {
    guarded->Withdraw()->Release("the client had left before the handler ran",
                                 v1::RELEASE_OUTCOME_NOTHING_HAPPENED, [] {});
  });
}

void GuardedMethod::Replay(const Call& call, const v1::ReserveResponse& verdict) const {
  v1::Reply reply = verdict.replay().reply();
  if (!reply.has_body()) call.guarded->OmitMessage();
  for (auto& [key, value] : RecordMetadata(
           verdict.record_id(), FromWire(verdict.replay().expires_at()), /*replayed=*/true)) {
    v1::MetadataEntry& entry = *reply.add_trailing_metadata();
    entry.set_key(std::move(key));
    entry.set_value(std::move(value));
  }
  call.held->Answer(std::move(reply));
}

}  // namespace idempotency
