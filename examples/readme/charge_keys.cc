// docs/keys.md's rules for keys and requests, compiled so that they stay true.
#include "absl/status/status.h"

#include "examples/payments/payments.pb.h"
#include "grpc_idempotency/server_guard/guard_options.h"
#include "grpc_idempotency/server_guard/key_validator.h"
#include "grpc_idempotency/server_guard/normaliser.h"
#include "grpc_idempotency/server_guard/scope.h"

// [keys:scope]
void SeparateUsers(idempotency::GuardOptions& options) {
  options.scope = idempotency::CombinedScope(
      {idempotency::PeerUriScope(), idempotency::MetadataScope("x-user")});
}
// [keys:end]

// [keys:validator]
void RequireUuidv7(idempotency::GuardOptions& options) {
  options.methods["/payments.v1.Payments/Charge"].key_validator = idempotency::Uuidv7Keys();
}
// [keys:end]

// [keys:normaliser]
void NormaliseNotes(idempotency::GuardOptions& options) {
  options.methods["/payments.v1.Payments/Charge"].normaliser =
      idempotency::NormaliserFor<payments::v1::ChargeRequest>(
          [](payments::v1::ChargeRequest& charge) {
            if (charge.note().empty()) charge.set_note("charge");  // as the handler does
            return absl::OkStatus();
          });
}
// [keys:end]
