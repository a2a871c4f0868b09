#include "interceptors/server/call/capturing_interceptor.h"

#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "google/protobuf/message_lite.h"

#include "core/utf8.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/idempotency_key.h"
#include "interceptors/server/admission/rejection.h"
#include "interceptors/server/call/batch_message.h"
#include "interceptors/server/call/guarded_call_table.h"
#include "interceptors/server/execution/reply_body.h"
#include "interceptors/server/policy/disposition_rule.h"
#include "interceptors/server/threads/awaited.h"
#include "interceptors/server/wire/record_metadata.h"

namespace idempotency::internal {
namespace {

using grpc::experimental::InterceptionHookPoints;
using Metadata = std::multimap<std::string, std::string>;

// gRPC sends a status's details as a trailer of this name, after the handler's trailers.
constexpr char kDetailsTrailer[] = "grpc-status-details-bin";

void Copy(const Metadata& from, google::protobuf::RepeatedPtrField<v1::MetadataEntry>* to) {
  for (const auto& [key, value] : from) {
    v1::MetadataEntry& entry = *to->Add();
    entry.set_key(key);
    entry.set_value(value);
  }
}

// The reply's details, which are not in its trailers then: gRPC's clients leave them in the
// trailers that they return, and a handler may forward those.
std::string MoveDetails(Metadata& trailers, std::string of_status) {
  std::vector<std::string> details;
  const auto [begin, end] = trailers.equal_range(kDetailsTrailer);
  for (auto entry = begin; entry != end; ++entry) details.push_back(std::move(entry->second));
  trailers.erase(begin, end);
  if (!of_status.empty()) details.push_back(std::move(of_status));
  return DetailsAmong(std::move(details));
}

// The status that is sent, with the details that count.
grpc::Status StatusOf(grpc::experimental::InterceptorBatchMethods& batch) {
  const grpc::Status status = batch.GetSendStatus();
  Metadata trailers = *batch.GetSendTrailingMetadata();
  return {status.error_code(), status.error_message(),
          MoveDetails(trailers, status.error_details())};
}

// A handler that forwards another service's trailers must not send that service's record as its
// own.
void RemoveRecordMetadata(Metadata& metadata) {
  for (auto entry = metadata.begin(); entry != metadata.end();) {
    entry = IsRecordMetadata(entry->first) ? metadata.erase(entry) : std::next(entry);
  }
}

}  // namespace

CapturingInterceptor::CapturingInterceptor(grpc::ServerContextBase* context,
                                           std::shared_ptr<GuardedCall> call,
                                           const OtherInterceptors& others)
    : context_(context), call_(std::move(call)), others_(others) {
  GuardedCallTable::Instance().Enter(context_, call_);
}

CapturingInterceptor::~CapturingInterceptor() {
  // A call that has ended without a status.
  GuardedCallTable::Instance().Leave(context_, call_.get());
}

void CapturingInterceptor::Intercept(Batch* batch) {
  // Called on another thread than the call's, and irrelevant here.
  if (batch->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_CANCEL)) {
    batch->Proceed();
    return;
  }
  if (batch->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_MESSAGE) &&
      call_->omits_message()) {
    batch->ModifySendMessage(nullptr);
  }
  if (call_->execution() == nullptr) {
    EndIfStatus(*batch);
    return;
  }
  // A handler may send it before its reply.
  if (batch->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
    RemoveRecordMetadata(*batch->GetSendInitialMetadata());
    Copy(*batch->GetSendInitialMetadata(), reply_.mutable_initial_metadata());
  }
  if (batch->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_MESSAGE)) {
    CaptureMessage(*batch);
  }
  EndIfStatus(*batch);
}

void CapturingInterceptor::EndIfStatus(Batch& batch) {
  if (!batch.QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
    batch.Proceed();
    return;
  }
  if (WaitsHere()) {
    const auto ended = std::make_shared<std::promise<void>>();
    if (!call_->canceller().End([ended] { ended->set_value(); })) ended->get_future().wait();
    EndOrSettle(batch);
    return;
  }
  // The call may be destroyed once the batch has proceeded.
  if (call_->canceller().End(
          [this, &batch] { others_.Run([this, &batch] { EndOrSettle(batch); }); })) {
    EndOrSettle(batch);
  }
}

bool CapturingInterceptor::WaitsHere() const {
  if (call_->stream() != nullptr) return call_->stream()->writer().blocks();
  return call_->sync() && others_.follow();
}

void CapturingInterceptor::EndOrSettle(Batch& batch) {
  if (call_->execution() == nullptr) {
    const MethodPolicy* const policy = call_->unguarded();
    if (policy != nullptr && !ReportsNoEffect(*policy, StatusOf(batch))) {
      ForbidRetries(batch);
    }
    End(batch);
    return;
  }
  CaptureStatus(batch);
  Settle(batch);
}

void CapturingInterceptor::CaptureMessage(Batch& batch) {
  GuardedStream* const stream = call_->stream().get();
  if (stream != nullptr && !stream->takes_messages()) return;
  const auto* message = static_cast<const google::protobuf::MessageLite*>(batch.GetSendMessage());
  if (message == nullptr) return;
  if (!others_.follow()) {
    // The bytes that gRPC sends, so that they are the recorded ones whatever the handler does to
    // the message meanwhile, and are made once.
    const grpc::ByteBuffer& serialized = *batch.GetSerializedSendMessage();
    if (stream == nullptr) {
      reply_.set_body(BytesOf(serialized));
    } else {
      stream->Capture(serialized);
    }
    return;
  }
  // Serialised here, in the same way as gRPC does later: the bytes of the batch would take the
  // message away from the interceptors after this one.
  if (stream == nullptr) {
    SetBody(*message, reply_);
  } else {
    stream->Capture(*message);
  }
}

void CapturingInterceptor::CaptureStatus(Batch& batch) {
  const grpc::Status status = batch.GetSendStatus();
  reply_.set_code(static_cast<int>(status.error_code()));
  // gRPC carries any bytes here; a proto3 string that is not UTF-8 would not
  // parse again, and the reply could never be recorded.
  if (!status.error_message().empty()) reply_.set_message(ToUtf8(status.error_message()));
  RemoveRecordMetadata(*batch.GetSendTrailingMetadata());
  // A copy: what is sent stays as the handler made it.
  Metadata trailers = *batch.GetSendTrailingMetadata();
  std::string details = MoveDetails(trailers, status.error_details());
  if (!details.empty()) reply_.set_details(std::move(details));
  Copy(trailers, reply_.mutable_trailing_metadata());
  if (context_->compression_level_set()) {
    reply_.set_compression_level(static_cast<int>(context_->compression_level()));
  }
  if (reply_.content() == v1::REPLY_CONTENT_STATUS_ONLY) reply_ = CapturedWithoutContent(reply_);
  if (call_->stream() != nullptr) call_->stream()->MoveTo(reply_);
}

void CapturingInterceptor::Settle(Batch& batch) {
  code_ = reply_.code();
  auto reply = std::make_unique<v1::Reply>(std::move(reply_));
  if (!WaitsHere()) {
    Settlement::Settle(call_->execution(), std::move(reply),
                       [this, &batch](const Settlement::Outcome& outcome) {
                         others_.Run([this, &batch, outcome] { Finish(batch, outcome); });
                       });
    return;
  }
  // gRPC would let this thread wait for the sent status in any case.
  const auto outcome = Await<Settlement::Outcome>([&](Settlement::Done done) {
    Settlement::Settle(call_->execution(), std::move(reply), std::move(done));
  });
  Finish(batch, outcome);
}

void CapturingInterceptor::Finish(Batch& batch, const Settlement::Outcome& outcome) {
  absl::Status error = outcome.error;
  if (call_->stream() != nullptr && call_->stream()->holds_back()) {
    error = FinishHeldBack(batch, outcome);
  }
  if (!error.ok()) {
    Replace(batch, error);
  }
  // Not where the ledger has a reply for a retry.
  if (outcome.error.ok() && !outcome.unrecorded.ok()) ForbidRetries(batch);
  // Once the batch has proceeded, the call and this object may be destroyed.
  Proceed(batch, outcome.expires_at);
}

absl::Status CapturingInterceptor::FinishHeldBack(Batch& batch,
                                                  const Settlement::Outcome& outcome) {
  GuardedStream& stream = *call_->stream();
  const bool recorded =
      outcome.error.ok() && (outcome.expires_at > absl::InfinitePast() || !outcome.unrecorded.ok());
  if (recorded && !stream.over_limit()) return absl::OkStatus();
  // Messages of an attempt that may run again, or too many messages: the caller gets only the
  // status.
  stream.writer().Discard();
  if (batch.QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_MESSAGE)) {
    DropMessage(batch);
  }
  if (!recorded) return outcome.error;
  // The status that every retry will get.
  if (code_ == 0) return ReplyNotKept(code_);
  batch.GetSendTrailingMetadata()->insert({std::string(kContentMetadata), "status-only"});
  return absl::OkStatus();
}

void CapturingInterceptor::Replace(Batch& batch, const absl::Status& error) {
  // Without message and initial metadata the answer is Trailers-Only, which
  // gRPC's own retries need.
  if (batch.QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_MESSAGE)) {
    DropMessage(batch);
  }
  if (batch.QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
    batch.GetSendInitialMetadata()->clear();
  }
  batch.GetSendTrailingMetadata()->clear();
  if (std::optional<std::string> pushback = PushbackFor(error); pushback.has_value()) {
    batch.GetSendTrailingMetadata()->emplace(kPushbackMetadata, *std::move(pushback));
  }
  batch.ModifySendStatus(ToGrpcStatus(error));
}

void CapturingInterceptor::ForbidRetries(Batch& batch) {
  if (batch.GetSendStatus().ok()) return;
  Metadata& trailers = *batch.GetSendTrailingMetadata();
  const std::string name(kPushbackMetadata);
  trailers.erase(name);
  trailers.emplace(name, kNoRetryPushback);
}

void CapturingInterceptor::Proceed(Batch& batch, absl::Time expires_at) {
  for (auto& entry :
       RecordMetadata(call_->execution()->record_id(), expires_at, /*replayed=*/false)) {
    batch.GetSendTrailingMetadata()->insert(std::move(entry));
  }
  End(batch);
}

void CapturingInterceptor::End(Batch& batch) {
  // Once the reply is sent, the next call may have a context at this address, and this object may
  // still exist: the next call must not find this one.
  GuardedCallTable::Instance().Leave(context_, call_.get());
  batch.Proceed();
}

}  // namespace idempotency::internal
