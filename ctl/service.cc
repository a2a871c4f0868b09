#include "ctl/service.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"

namespace idempotency::internal {
namespace {

// The most that a page may have.
constexpr int kPageSize = 200;

// Before a page is requested again; doubled each time. All together almost eight seconds.
constexpr absl::Duration kFirstPause = absl::Milliseconds(250);

// A server that stops cancels its calls.
bool MayPass(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsCancelled(status) ||
         ReasonOf(status) == Reason::kOverloaded;
}

// A status without a reason is of gRPC itself: the server was not reached, or is no idempotencyd.
absl::Status Explain(const absl::Status& status, const Service::Options& options) {
  if (ReasonOf(status).has_value()) return status;
  if (status.code() == absl::StatusCode::kUnimplemented) {
    return absl::UnimplementedError(absl::StrCat(
        options.address, " does not have this method: it is older, or no idempotencyd"));
  }
  const std::string message = absl::StrCat(options.address, ": ", status.message());
  if (!absl::StrContains(status.message(), "Socket closed")) return {status.code(), message};
  return {status.code(), absl::StrCat(message, "; ", options.advice_if_closed)};
}

}  // namespace

Service::Service(const std::shared_ptr<grpc::Channel>& channel, Options options)
    : options_(std::move(options)),
      records_(v1::IdempotencyService::NewStub(channel)),
      administration_(v1::IdempotencyAdminService::NewStub(channel)) {}

template <typename Response, typename Method, typename Request>
absl::StatusOr<Response> Service::Call(const Method& method, const Request& request) {
  grpc::ClientContext context;
  context.set_deadline(GrpcDeadlineIn(options_.timeout));
  if (!options_.local_token.empty()) {
    context.AddMetadata("authorization", absl::StrCat("Bearer ", options_.local_token));
  }
  {
    const MutexLock lock(mutex_);
    if (cancelled_) return absl::CancelledError("the call was cancelled");
    running_ = &context;
  }
  Response response;
  const grpc::Status status = method(&context, request, &response);
  {
    const MutexLock lock(mutex_);
    running_ = nullptr;
  }
  if (!status.ok()) return Explain(FromGrpcStatus(status), options_);
  return response;
}

void Service::Cancel() {
  const MutexLock lock(mutex_);
  cancelled_ = true;
  was_cancelled_.NotifyAll();
  if (running_ != nullptr) running_->TryCancel();
}

absl::StatusOr<v1::Record> Service::Get(const v1::GetRequest& request) {
  absl::StatusOr<v1::GetResponse> response = Call<v1::GetResponse>(
      [this](grpc::ClientContext* context, const auto& sent, auto* received) {
        return records_->Get(context, sent, received);
      },
      request);
  if (!response.ok()) return response.status();
  return std::move(*response->mutable_record());
}

absl::StatusOr<v1::ListResponse> Service::List(const v1::ListRequest& request) {
  return Call<v1::ListResponse>(
      [this](grpc::ClientContext* context, const auto& sent, auto* received) {
        return administration_->List(context, sent, received);
      },
      request);
}

absl::StatusOr<v1::ResolveResponse> Service::Resolve(const v1::ResolveRequest& request) {
  return Call<v1::ResolveResponse>(
      [this](grpc::ClientContext* context, const auto& sent, auto* received) {
        return administration_->Resolve(context, sent, received);
      },
      request);
}

absl::StatusOr<v1::PurgeResponse> Service::Purge(const v1::PurgeRequest& request) {
  return Call<v1::PurgeResponse>(
      [this](grpc::ClientContext* context, const auto& sent, auto* received) {
        return administration_->Purge(context, sent, received);
      },
      request);
}

absl::StatusOr<v1::ResealResponse> Service::Reseal(const v1::ResealRequest& request) {
  return Call<v1::ResealResponse>(
      [this](grpc::ClientContext* context, const auto& sent, auto* received) {
        return administration_->Reseal(context, sent, received);
      },
      request);
}

absl::StatusOr<v1::ListAuditResponse> Service::ListAudit(const v1::ListAuditRequest& request) {
  return Call<v1::ListAuditResponse>(
      [this](grpc::ClientContext* context, const auto& sent, auto* received) {
        return administration_->ListAudit(context, sent, received);
      },
      request);
}

bool Service::cancelled() const {
  const MutexLock lock(mutex_);
  return cancelled_;
}

void Service::Pause(absl::Duration pause) {
  const auto end = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(pause);
  MutexLock lock(mutex_);
  while (!cancelled_ && was_cancelled_.WaitUntil(lock, end)) {
  }
}

template <typename Response, typename Request>
absl::StatusOr<Response> Service::NextPage(
    absl::StatusOr<Response> (Service::*method)(const Request&), const Request& request) {
  absl::Duration pause = kFirstPause;
  for (int tries = 1;; ++tries) {
    absl::StatusOr<Response> page = (this->*method)(request);
    if (page.ok() || request.page_token().empty() || tries == kPageTries ||
        !MayPass(page.status()) || cancelled()) {
      return page;
    }
    Pause(pause);
    pause *= 2;
  }
}

absl::StatusOr<Service::Visited> Service::VisitRecords(
    v1::ListRequest request, const std::function<bool(const v1::Record&)>& visit,
    const std::function<void()>& page_ended) {
  request.set_page_size(kPageSize);
  Visited visited;
  while (true) {
    const absl::StatusOr<v1::ListResponse> page = NextPage(&Service::List, request);
    if (!page.ok()) return page.status();
    const auto& records = page->records();
    const bool whole = std::all_of(records.begin(), records.end(), visit);
    page_ended();
    visited.damaged += page->damaged();
    visited.all = whole && page->next_page_token().empty();
    if (!whole || visited.all) return visited;
    request.set_page_token(page->next_page_token());
  }
}

absl::StatusOr<bool> Service::VisitAudit(v1::ListAuditRequest request,
                                         const std::function<bool(const v1::AuditEntry&)>& visit,
                                         const std::function<void()>& page_ended) {
  request.set_page_size(kPageSize);
  std::int64_t before = std::numeric_limits<std::int64_t>::max();
  while (true) {
    const absl::StatusOr<v1::ListAuditResponse> page = NextPage(&Service::ListAudit, request);
    if (!page.ok()) return page.status();
    const auto& entries = page->entries();
    for (const v1::AuditEntry& entry : entries) {
      // A server that is older than the field ignores it.
      if (request.newest_first() && entry.sequence() >= before) {
        return absl::UnimplementedError(absl::StrCat(
            options_.address, " is older than this program: its entries are oldest first"));
      }
      before = entry.sequence();
    }
    const bool whole = std::all_of(entries.begin(), entries.end(), visit);
    page_ended();
    if (!whole) return false;
    if (page->next_page_token().empty()) return true;
    request.set_page_token(page->next_page_token());
  }
}

}  // namespace idempotency::internal
