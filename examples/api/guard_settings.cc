// The settings of a guard: each header of server_guard/ that is not used elsewhere in the
// examples, as an application uses it.
#include <grpcpp/create_channel.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/time/time.h"

#include "examples/payments/payments.pb.h"
#include "grpc_idempotency/guard_tracing/otlp_guard_tracer.h"
#include "grpc_idempotency/log_sink.h"
#include "grpc_idempotency/server_guard/authoriser.h"
#include "grpc_idempotency/server_guard/disposition.h"
#include "grpc_idempotency/server_guard/guard_hooks.h"
#include "grpc_idempotency/server_guard/guard_options.h"
#include "grpc_idempotency/server_guard/guard_threads.h"
#include "grpc_idempotency/server_guard/guard_tracer.h"
#include "grpc_idempotency/server_guard/key_validator.h"
#include "grpc_idempotency/server_guard/method_config.h"
#include "grpc_idempotency/server_guard/method_policy.h"
#include "grpc_idempotency/server_guard/normaliser.h"
#include "grpc_idempotency/server_guard/recovery_handler.h"
#include "grpc_idempotency/server_guard/replay_cache_counters.h"
#include "grpc_idempotency/server_guard/replay_cache_options.h"
#include "grpc_idempotency/server_guard/reply_loader.h"
#include "grpc_idempotency/server_guard/scope.h"
#include "grpc_idempotency/server_guard/server_guard.h"

namespace examples {

using payments::v1::ChargeReply;
using payments::v1::ChargeRequest;

// The application's own check: its proxy names the account's owner.
bool IsOwner(const grpc::ServerContextBase& context, const std::string& account) {
  const auto user = context.client_metadata().find("x-user");
  return user != context.client_metadata().end() &&
         std::string_view(user->second.data(), user->second.size()) == account;
}

// authoriser.h, normaliser.h, key_validator.h, recovery_handler.h, reply_loader.h
idempotency::MethodConfig ChargeConfig() {
  idempotency::MethodConfig config;
  config.adjust = [](idempotency::MethodPolicy& policy) { policy.lease = absl::Seconds(10); };
  // A key that is used again after its record has expired is then refused.
  config.key_validator = idempotency::Uuidv7Keys();
  config.authoriser = idempotency::AuthoriserFor<ChargeRequest>(
      [](const grpc::ServerContextBase& context, const ChargeRequest& charge) {
        if (IsOwner(context, charge.account())) return absl::OkStatus();
        return absl::PermissionDeniedError("not your account");
      });
  config.normaliser = idempotency::NormaliserFor<ChargeRequest>([](ChargeRequest& charge) {
    charge.set_account(std::string(absl::StripAsciiWhitespace(charge.account())));
    return absl::OkStatus();
  });
  config.recovery = idempotency::TypedRecovery<ChargeRequest, ChargeReply>(
      [](const idempotency::RecoveryCase&, const ChargeRequest*) {
        // Look the charge up under the record id here; docs/recovery.md has the rest.
        return idempotency::TypedRecoveryDecision<ChargeReply>::LeaveUnknown();
      });
  config.loader = idempotency::LoadReply<ChargeReply>(
      [](const idempotency::v1::Reference& reference, ChargeReply& reply) {
        reply.set_charge_id(reference.id());
        return absl::OkStatus();
      });
  return config;
}

// guard_hooks.h, disposition.h
idempotency::GuardHooks CountOutcomes(std::atomic<int>& completed, std::atomic<int>& lost) {
  idempotency::GuardHooks hooks;
  hooks.on_recorded = [&completed](const idempotency::RecordedEvent& event) {
    if (event.disposition == idempotency::Disposition::kComplete) ++completed;
  };
  hooks.on_lost = [&lost](const idempotency::LostEvent&) { ++lost; };
  return hooks;
}

// guard_tracer.h: the spans of the application's own tracing.
class SlowAdmissions final : public idempotency::GuardTracer {
 public:
  void OnSpanEnd(idempotency::GuardSpan span) override {
    if (span.end - span.start > absl::Seconds(1)) ++count_;
  }
  int count() const { return count_; }

 private:
  std::atomic<int> count_{0};
};

// guard_tracing/otlp_guard_tracer.h: or to a collector, without an SDK.
std::shared_ptr<idempotency::GuardTracer> TracerTo(const std::string& collector) {
  idempotency::OtlpGuardTracerOptions options;
  options.service_name = "payments";
  return std::make_shared<idempotency::OtlpGuardTracer>(
      grpc::CreateChannel(collector, grpc::InsecureChannelCredentials()), options);
}

// guard_options.h, scope.h, guard_threads.h, replay_cache_options.h, log_sink.h
idempotency::GuardOptions Options(std::atomic<int>& completed, std::atomic<int>& lost) {
  idempotency::GuardOptions options;
  options.name_space = "payments";
  // The certificate of a backend for a frontend, and the user for whom it calls.
  options.scope = idempotency::CombinedScope(
      {idempotency::PeerUriScope(), idempotency::MetadataScope("x-user")});
  options.methods["/payments.v1.Payments/Charge"] = ChargeConfig();
  options.hooks = CountOutcomes(completed, lost);
  options.tracer = std::make_shared<SlowAdmissions>();
  options.threads.handlers = 32;
  options.replay_cache.max_age = absl::Seconds(5);
  options.log = [](idempotency::LogSeverity severity, std::string_view line) {
    const char* const kind = severity == idempotency::LogSeverity::kError ? "error" : "info";
    std::fprintf(stderr, "%s: %.*s\n", kind, static_cast<int>(line.size()), line.data());
  };
  return options;
}

// replay_cache_counters.h
double HitRate(const idempotency::ServerGuard& guard) {
  const idempotency::ReplayCacheCounters counters = guard.replay_cache();
  const std::uint64_t calls = counters.hits + counters.misses;
  return calls == 0 ? 0 : static_cast<double>(counters.hits) / static_cast<double>(calls);
}

}  // namespace examples
