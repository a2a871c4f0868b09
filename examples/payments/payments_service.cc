#include "examples/payments/payments_service.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"

#include "grpc_idempotency/server_guard/execution.h"

namespace payments {
namespace {

constexpr std::size_t kMaxNoteBytes = 256;
constexpr int kMaxEntries = 100;
constexpr absl::string_view kChargePrefix = "ch_";
constexpr absl::string_view kRefundPrefix = "re_";

// absl's and gRPC's codes have the same numbers.
grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

// The answer for a failed movement. By UNAVAILABLE the ledger reports that nothing moved: passed
// on, so that the key is free for a retry at once. INTERNAL reports neither, and the record's
// policy decides.
grpc::Status Failed(const absl::Status& status, idempotency::Execution* execution) {
  if (absl::IsUnavailable(status) && execution != nullptr) execution->MarkNoEffect();
  return ToGrpc(status);
}

Ledger::Origin OriginOf(const idempotency::Execution* execution) {
  if (execution == nullptr) return {};
  return {execution->record_id(), execution->attempt()};
}

grpc::Status CheckNote(const std::string& note) {
  if (note.size() <= kMaxNoteBytes) return grpc::Status::OK;
  return {grpc::StatusCode::INVALID_ARGUMENT,
          absl::StrCat("note has over ", kMaxNoteBytes, " bytes")};
}

std::optional<std::int64_t> ParseChargeId(absl::string_view text) {
  std::int64_t id = 0;
  if (!absl::ConsumePrefix(&text, kChargePrefix) || !absl::SimpleAtoi(text, &id)) {
    return std::nullopt;
  }
  return id;
}

// Waits in small steps. False when the caller cancelled or the reservation was lost: then the money
// must not move.
bool StillWanted(grpc::ServerContext* context, const idempotency::Execution* execution,
                 absl::Duration delay) {
  constexpr absl::Duration kStep = absl::Milliseconds(20);
  const absl::Time until = absl::Now() + delay;
  while (true) {
    if (context->IsCancelled()) return false;
    if (execution != nullptr && execution->lost()) return false;
    const absl::Duration left = until - absl::Now();
    if (left <= absl::ZeroDuration()) return true;
    absl::SleepFor(std::min(left, kStep));
  }
}

}  // namespace

PaymentsService::PaymentsService(Ledger& ledger, absl::Duration charge_delay)
    : ledger_(ledger), charge_delay_(charge_delay) {}

grpc::Status PaymentsService::Charge(grpc::ServerContext* context, const v1::ChargeRequest* request,
                                     v1::ChargeReply* reply) {
  if (grpc::Status note = CheckNote(request->note()); !note.ok()) return note;
  auto* execution = idempotency::Execution::FromContext(context);
  const Ledger::Origin origin = OriginOf(execution);
  spdlog::info("charge begins: record={} attempt={}", origin.record_id, origin.attempt);

  // The whole wait is before the money moves: a process killed here has had no effect.
  if (!StillWanted(context, execution, charge_delay_)) {
    if (execution != nullptr) execution->MarkNoEffect();
    return {grpc::StatusCode::CANCELLED, "given up before any money moved"};
  }
  const auto posting =
      ledger_.Charge(request->account(), request->amount_cents(), request->note(), origin);
  if (!posting.ok()) return Failed(posting.status(), execution);
  reply->set_charge_id(absl::StrCat(kChargePrefix, posting->entry_id));
  reply->set_balance_cents(posting->balance_cents);
  return grpc::Status::OK;
}

grpc::Status PaymentsService::Refund(grpc::ServerContext* context, const v1::RefundRequest* request,
                                     v1::RefundReply* reply) {
  if (grpc::Status note = CheckNote(request->note()); !note.ok()) return note;
  const auto charge_id = ParseChargeId(request->charge_id());
  if (!charge_id.has_value()) return {grpc::StatusCode::NOT_FOUND, "no such charge"};
  auto* execution = idempotency::Execution::FromContext(context);
  const auto posting =
      ledger_.Refund(*charge_id, request->amount_cents(), request->note(), OriginOf(execution));
  if (!posting.ok()) return Failed(posting.status(), execution);
  reply->set_refund_id(absl::StrCat(kRefundPrefix, posting->entry_id));
  reply->set_balance_cents(posting->balance_cents);
  return grpc::Status::OK;
}

grpc::Status PaymentsService::GetBalance(grpc::ServerContext* /*context*/,
                                         const v1::GetBalanceRequest* request,
                                         v1::GetBalanceReply* reply) {
  const auto balance = ledger_.Balance(request->account());
  if (!balance.ok()) return ToGrpc(balance.status());
  reply->set_balance_cents(*balance);
  return grpc::Status::OK;
}

grpc::Status PaymentsService::ListEntries(grpc::ServerContext* /*context*/,
                                          const v1::ListEntriesRequest* request,
                                          v1::ListEntriesReply* reply) {
  const auto entries = ledger_.Entries(request->account(), kMaxEntries);
  if (!entries.ok()) return ToGrpc(entries.status());
  for (const Ledger::Entry& entry : *entries) {
    v1::Entry* out = reply->add_entries();
    out->set_id(absl::StrCat(entry.amount_cents < 0 ? kChargePrefix : kRefundPrefix, entry.id));
    out->set_amount_cents(entry.amount_cents);
    out->set_note(entry.note);
    out->set_record_id(entry.origin.record_id);
    out->set_attempt(entry.origin.attempt);
    out->set_at(entry.at);
  }
  return grpc::Status::OK;
}

}  // namespace payments
