#include "interceptors/ext_proc/service/external_processor.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "core/retry_delays.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"

namespace idempotency::internal {
namespace {

// A stream that is refused. Its end is an error in any case: Envoy lets a request through whose
// stream ends with OK.
class RefusedStream final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit RefusedStream(const absl::Status& why) { Finish(ToGrpcStatus(why)); }
  void OnDone() override { const std::unique_ptr<RefusedStream> self(this); }
};

// The other half is for the calls of others.
int Workers(unsigned int cores) {
  return std::clamp(static_cast<int>(cores / 2), 1, ExchangeBounds::kMaxWorkers);
}

absl::Status Closing() {
  return MakeError(Reason::kStoreUnavailable,
                   "the idempotency service is being stopped; nothing was run",
                   RetryAfter(retry_delays::kUnavailable));
}

absl::Status NoPlaceAtAll() {
  return MakeError(Reason::kOverloaded, "as many exchanges as max_exchanges are in progress",
                   RetryAfter(retry_delays::kServiceOverloaded));
}

}  // namespace

ExternalProcessor::ExternalProcessor(std::shared_ptr<const ProcessorSettings> settings,
                                     std::unique_ptr<Connection> connection,
                                     const ExchangeBounds::Limits& limits, AdmitProxy admit_proxy,
                                     ProcessorEvents& events, std::shared_ptr<GuardLog> log)
    : admit_proxy_(std::move(admit_proxy)),
      events_(events),
      log_(log),
      bounds_(limits, events),
      guard_(std::move(connection), settings->guard, std::move(log)),
      settings_(std::move(settings)),
      // An exchange has one task there at most, so max_exchanges bounds them.
      workers_("ext-proc", Workers(std::thread::hardware_concurrency()),
               std::numeric_limits<std::size_t>::max()) {}

void ExternalProcessor::Configure(std::shared_ptr<const ProcessorSettings> settings,
                                  const ExchangeBounds::Limits& limits) {
  bounds_.SetLimits(limits);
  std::shared_ptr<const ProcessorSettings> before = settings;
  {
    MutexLock lock(mutex_);
    before.swap(settings_);
  }
  WarnOfOtherRecords(*before, *settings);
  WarnOfOtherFingerprints(*before->routes, *settings->routes);
  WarnOfStricterKeys(*before->routes, *settings->routes);
}

void ExternalProcessor::WarnOfOtherRecords(const ProcessorSettings& before,
                                           const ProcessorSettings& now) const {
  std::vector<std::string> changed;
  if (now.config.name_space != before.config.name_space) changed.emplace_back("namespace");
  if (!(now.config.scope == before.config.scope)) changed.emplace_back("scope");
  if (const auto requests = now.routes->WithOtherOperations(*before.routes); !requests.empty()) {
    changed.push_back(absl::StrCat("the operation of ", requests.size(),
                                   " kinds of requests (the first: ", requests.front(), ")"));
  }
  if (changed.empty()) return;
  log_->Once(LogSeverity::kWarning,
             absl::StrCat("external_processor: a change of ", absl::StrJoin(changed, ", "),
                          ": retries of requests from before find no record, and run again; if any "
                          "are due, restore the former value, or give an entry the operation of "
                          "the former one"));
}

void ExternalProcessor::WarnOfOtherFingerprints(const RouteTable& before,
                                                const RouteTable& now) const {
  const std::vector<std::string> changed = now.WithOtherFingerprints(before);
  if (changed.empty()) return;
  log_->Once(LogSeverity::kWarning,
             absl::StrCat("descriptor_sets change the fingerprints of ", changed.size(),
                          " methods (the first: ", changed.front(),
                          "): retries of requests from before get FINGERPRINT_UNKNOWN until their "
                          "records expire; to serve them, restore the former descriptor_sets"));
}

void ExternalProcessor::WarnOfStricterKeys(const RouteTable& before, const RouteTable& now) const {
  const std::vector<std::string> changed = now.WithStricterKeys(before);
  if (changed.empty()) return;
  log_->Once(LogSeverity::kWarning,
             absl::StrCat("external_processor: a new key_format of ", changed.size(),
                          " kinds of requests (the first: ", changed.front(),
                          "): retries of requests from before with other keys get KEY_INVALID, "
                          "although the first ones may have run; if any are due, remove it until "
                          "their records expire"));
}

void ExternalProcessor::Close() {
  std::vector<std::shared_ptr<ProcessorStream>> streams;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    for (const auto& [key, weak] : streams_) {
      if (auto stream = weak.lock(); stream != nullptr) streams.push_back(std::move(stream));
    }
  }
  for (const auto& stream : streams) stream->Refuse(Closing());
  guard_.Close();
}

absl::Status ExternalProcessor::Admit(const grpc::ServerContextBase& context) {
  if (absl::Status admitted = admit_proxy_(context); !admitted.ok()) {
    events_.Misconfigured(admitted.message());
    return admitted;
  }
  if (misconfigured_.Has(context.peer(), std::chrono::steady_clock::now())) {
    return absl::FailedPreconditionError(
        "this proxy's response_attributes must list response.code_details");
  }
  if (bounds_.Enter()) return absl::OkStatus();
  return NoPlaceAtAll();
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* ExternalProcessor::BeginStream(
    const grpc::ServerContextBase& context) {
  if (const absl::Status admitted = Admit(context); !admitted.ok()) {
    events_.Ended(ExchangeResult::kBroken);
    return std::make_unique<RefusedStream>(admitted).release();
  }
  ProcessorStream::Callbacks callbacks{
      [this, peer = context.peer()] { misconfigured_.Add(peer, std::chrono::steady_clock::now()); },
      [this](const ProcessorStream* done) { Forget(done); }};
  std::shared_ptr<ProcessorStream> stream;
  bool closed = false;
  {
    MutexLock lock(mutex_);
    closed = closed_;
    stream = std::make_shared<ProcessorStream>(settings_, guard_, workers_, bounds_, events_,
                                               std::move(callbacks));
    if (!closed) streams_.emplace(stream.get(), stream);
  }
  stream->Start();
  if (closed) stream->Refuse(Closing());
  return stream.get();
}

void ExternalProcessor::Forget(const ProcessorStream* stream) {
  MutexLock lock(mutex_);
  streams_.erase(stream);
}

}  // namespace idempotency::internal
