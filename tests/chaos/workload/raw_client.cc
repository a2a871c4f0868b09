#include "tests/chaos/workload/raw_client.h"

#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/time_util.h"

#include "core/sha256.h"
#include "grpc_idempotency/errors.h"
#include "tests/chaos/workload/reply_digest.h"
#include "tests/chaos/workload/verdicts.h"

namespace idempotency::internal::testing {
namespace {

using google::protobuf::util::TimeUtil;

// Shorter than the lease: a client without an answer for this long does not act later on a record
// that was taken over meanwhile.
constexpr std::chrono::milliseconds kTimeout(1000);

// The max_wait of a reservation that waits for a running attempt: less than the time to answer.
constexpr std::chrono::milliseconds kWait(600);

Connection::Deadline DeadlineFromNow() { return std::chrono::steady_clock::now() + kTimeout; }

std::string DigestOf(const v1::Reply& reply) {
  return ReplyDigest(reply.code(), reply.message(), reply.body());
}

const char* NameOf(RawOperation::Kind kind) {
  switch (kind) {
    case RawOperation::Kind::kReserve:
      return "reserve";
    case RawOperation::Kind::kComplete:
      return "complete";
    case RawOperation::Kind::kRelease:
      return "release";
    case RawOperation::Kind::kExtend:
      return "extend";
  }
  return "";
}

const char* NameOf(v1::RecordState state) {
  switch (state) {
    case v1::RECORD_STATE_RESERVED:
      return "RESERVED";
    case v1::RECORD_STATE_COMPLETED:
      return "COMPLETED";
    case v1::RECORD_STATE_RELEASED:
      return "RELEASED";
    case v1::RECORD_STATE_UNKNOWN:
      return "UNKNOWN";
    default:
      return "NONE";
  }
}

// No attempt holds it any more, and the next caller gets an unknown outcome.
bool Lapsed(const v1::Record& record) {
  return record.state() == v1::RECORD_STATE_RESERVED &&
         record.on_lease_expiry() == v1::LEASE_EXPIRY_REQUIRE_RECOVERY &&
         record.lease_expires_at() < TimeUtil::GetCurrentTime();
}

// For Connection, which calls back on other threads.
template <typename Answer>
Answer WaitFor(const std::function<void(std::function<void(Answer)>)>& send) {
  auto promise = std::make_shared<std::promise<Answer>>();
  std::future<Answer> answer = promise->get_future();
  send([promise](Answer given) { promise->set_value(std::move(given)); });
  return answer.get();
}

}  // namespace

RawClient::RawClient(std::string name, std::unique_ptr<Connection> connection, HistoryLog& log)
    : name_(std::move(name)), log_(log), connection_(std::move(connection)) {}

std::string RawClient::LogInvoke(const RawOperation& operation) {
  std::string id = absl::StrCat(name_, "-", operations_.fetch_add(1));
  HistoryLine line("invoke");
  line.Text("id", id)
      .Text("client", name_)
      .Text("kind", NameOf(operation.kind))
      .Record("record", operation.key);
  if (operation.kind == RawOperation::Kind::kReserve) {
    line.Text("fp", operation.request)
        .Text("request_token", operation.request_token)
        .Text("policy", operation.recovery ? "recovery" : "take_over")
        .Flag("recover", operation.recover);
  } else {
    line.Text("token", Digest(operation.token));
  }
  if (operation.kind == RawOperation::Kind::kComplete) {
    line.Text("reply", ReplyDigest(0, "", operation.reply));
  }
  if (operation.kind == RawOperation::Kind::kRelease) {
    line.Flag("outcome_unknown", operation.outcome_unknown);
  }
  log_.Append(line);
  return id;
}

void RawClient::LogSimple(const std::string& id, const absl::Status& status, const char* verdict,
                          const Done& done) {
  const LoggedAnswer answer = status.ok() ? LoggedAnswer{"ok", verdict} : LoggedFailure(status);
  log_.Append(HistoryLine(answer.event).Text("id", id).Text("verdict", answer.verdict));
  done({answer.event, answer.verdict, ""});
}

void RawClient::LogReserved(const std::string& id, const v1::ReserveResponse& response,
                            const Done& done) {
  RawAnswer answer{"fail", "", ""};
  switch (response.verdict_case()) {
    case v1::ReserveResponse::kReserved:
      answer = {"ok", "reserved", response.reserved().reservation_token()};
      break;
    case v1::ReserveResponse::kReplay:
      answer = {"ok", "replay", ""};
      break;
    case v1::ReserveResponse::kInFlight:
      answer.verdict = "in_flight";
      break;
    case v1::ReserveResponse::kMismatch:
      answer.verdict = "mismatch";
      break;
    case v1::ReserveResponse::kOutcomeUnknown:
      answer.verdict = "outcome_unknown";
      break;
    case v1::ReserveResponse::kExpired:
      answer.verdict = "expired";
      break;
    case v1::ReserveResponse::VERDICT_NOT_SET:
      answer = {"unknown", "none", ""};
      break;
  }
  HistoryLine line(answer.event);
  line.Text("id", id).Text("verdict", answer.verdict).Text("record_id", response.record_id());
  if (response.has_reserved()) {
    line.Text("token", Digest(answer.token))
        .Number("attempt", response.reserved().attempt())
        .Number("lease_ms",
                TimeUtil::DurationToMilliseconds(response.reserved().lease_remaining()));
  }
  if (response.has_replay()) line.Text("reply", DigestOf(response.replay().reply()));
  log_.Append(line);
  done(answer);
}

void RawClient::SendReserve(const RawOperation& operation, const std::string& id, Done done) {
  v1::ReserveRequest request;
  *request.mutable_record_key() = ToProto(operation.key);
  const Sha256Digest digest = Sha256(operation.request);
  v1::Fingerprint& fingerprint = *request.add_fingerprints();
  fingerprint.set_version(1);
  fingerprint.set_digest(digest.data(), digest.size());
  request.set_request_token(operation.request_token);
  *request.mutable_lease() = TimeUtil::MillisecondsToDuration(kLease.count());
  request.set_on_lease_expiry(operation.recovery ? v1::LEASE_EXPIRY_REQUIRE_RECOVERY
                                                 : v1::LEASE_EXPIRY_TAKE_OVER);
  request.set_recover(operation.recover);
  if (operation.waits) {
    *request.mutable_max_wait() = TimeUtil::MillisecondsToDuration(kWait.count());
  }
  connection_->Reserve(request, DeadlineFromNow(),
                       [this, id, done = std::move(done)](absl::StatusOr<v1::ReserveResponse> got) {
                         if (got.ok()) {
                           LogReserved(id, *got, done);
                         } else {
                           LogSimple(id, got.status(), "", done);
                         }
                       });
}

void RawClient::Send(const RawOperation& operation, Done done) {
  const std::string id = LogInvoke(operation);
  switch (operation.kind) {
    case RawOperation::Kind::kReserve:
      SendReserve(operation, id, std::move(done));
      return;
    case RawOperation::Kind::kComplete: {
      v1::CompleteRequest request;
      *request.mutable_record_key() = ToProto(operation.key);
      request.set_reservation_token(operation.token);
      request.mutable_reply()->set_body(operation.reply);
      request.mutable_reply()->set_content(v1::REPLY_CONTENT_FULL);
      connection_->Complete(request, DeadlineFromNow(),
                            [this, id, done = std::move(done)](const auto& got) {
                              LogSimple(id, got.status(), "completed", done);
                            });
      return;
    }
    case RawOperation::Kind::kRelease: {
      v1::ReleaseRequest request;
      *request.mutable_record_key() = ToProto(operation.key);
      request.set_reservation_token(operation.token);
      request.set_outcome(operation.outcome_unknown ? v1::RELEASE_OUTCOME_OUTCOME_UNKNOWN
                                                    : v1::RELEASE_OUTCOME_NOTHING_HAPPENED);
      connection_->Release(request, DeadlineFromNow(),
                           [this, id, done = std::move(done)](const auto& got) {
                             LogSimple(id, got.status(), "released", done);
                           });
      return;
    }
    case RawOperation::Kind::kExtend: {
      v1::ExtendRequest request;
      *request.mutable_record_key() = ToProto(operation.key);
      request.set_reservation_token(operation.token);
      *request.mutable_lease() = TimeUtil::MillisecondsToDuration(kLease.count());
      connection_->Extend(
          request, DeadlineFromNow(),
          [this, id, done = std::move(done)](absl::StatusOr<v1::ExtendResponse> got) {
            LogSimple(id, got.status(), "extended", done);
          });
      return;
    }
  }
}

RawAnswer RawClient::Call(const RawOperation& operation) {
  return WaitFor<RawAnswer>(
      [&](std::function<void(RawAnswer)> done) { Send(operation, std::move(done)); });
}

std::string RawClient::Look(const RecordKey& key) {
  v1::GetRequest request;
  *request.mutable_record_key() = ToProto(key);
  request.set_view(v1::RECORD_VIEW_FULL);
  const std::int64_t from = HistoryLine::Now();
  const auto got =
      WaitFor<absl::StatusOr<v1::GetResponse>>([&](Connection::Callback<v1::GetResponse> done) {
        connection_->Get(request, DeadlineFromNow(), std::move(done));
      });
  std::string state;
  LogProbe(key, from, got, state);
  return state;
}

void RawClient::LogProbe(const RecordKey& key, std::int64_t from,
                         const absl::StatusOr<v1::GetResponse>& response, std::string& state) {
  HistoryLine line("probe");
  line.Number("from", from).Record("record", key);
  if (!response.ok()) {
    if (ReasonOf(response.status()) != Reason::kRecordNotFound) return;
    state = "NONE";
    log_.Append(line.Text("state", state));
    return;
  }
  const v1::Record& record = response->record();
  state = NameOf(record.state());
  const bool completed = record.state() == v1::RECORD_STATE_COMPLETED;
  line.Text("state", state)
      .Number("attempt", record.attempt())
      .Text("record_id", record.record_id())
      .Record("seen", FromProto(record.record_key()))
      .Flag("whole", completed == record.has_reply() && completed == record.has_completed_at())
      .Flag("lapsed", Lapsed(record));
  if (record.has_reply()) {
    if (record.reply().content() == v1::REPLY_CONTENT_FULL) {
      line.Text("reply", DigestOf(record.reply()));
    } else {
      line.Text("content", "partial");
    }
  }
  log_.Append(line);
}

}  // namespace idempotency::internal::testing
