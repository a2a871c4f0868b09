#include "client/connection/deferred_actions.h"

#include <algorithm>

#include "grpc_idempotency/grpc_status.h"

namespace idempotency::internal {
namespace {

grpc::Status StatusOf(const v1::SessionError& error) {
  return grpc::Status(StatusCodeFrom(error.code()), error.message(), error.details());
}

}  // namespace

void DeferredActions::Run() {
  for (SessionStream* stream : starts_) stream->Start();
  for (auto& [stream, frame] : writes_) stream->Write(std::move(frame));
  for (SessionStream* stream : reads_) stream->Read();
  for (SessionStream* stream : half_closes_) stream->HalfClose();
  for (const auto& stream : cancels_) stream->Cancel();
  for (SessionStream* stream : releases_) stream->Release();
  for (auto& [operation, other] : detours_) operation->SendBy(*other);
  for (auto& [operation, answer] : answers_) {
    if (answer->has_error()) {
      operation->Fail(TransportErrorReporter::ErrorOf(StatusOf(answer->error())));
    } else {
      operation->Answer(*answer);
    }
  }
  // In the order of their requests, not in that of a hash table.
  std::sort(failures_.begin(), failures_.end(),
            [](const auto& a, const auto& b) { return a.first->id < b.first->id; });
  for (auto& [operation, failure] : failures_) {
    const auto* const status = std::get_if<grpc::Status>(&failure);
    operation->Fail(status == nullptr ? *std::get_if<absl::Status>(&failure)
                                      : TransportErrorReporter::ErrorOf(*status));
  }
}

void DeferredActions::Log(TransportErrorReporter& transport_errors,
                          const ApplicationLog& log) const {
  if (answered_) transport_errors.Answered();
  if (failed_.has_value()) transport_errors.Report(*failed_);
  for (const auto& [severity, line] : lines_) log.Write(severity, line);
}

}  // namespace idempotency::internal
