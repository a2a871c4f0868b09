// docs/policies.md's check of permissions, compiled so that it stays true.
#include <grpcpp/server_context.h>

#include <string>

#include "absl/status/status.h"

#include "examples/payments/payments.pb.h"
#include "grpc_idempotency/server_guard/authoriser.h"
#include "grpc_idempotency/server_guard/guard_options.h"

// Who may use which account.
class Accounts {
 public:
  virtual ~Accounts() = default;
  virtual bool MayCharge(const grpc::ServerContextBase& caller,
                         const std::string& account) const = 0;
};

// [policies:authoriser]
void AuthoriseOwners(const Accounts& accounts, idempotency::GuardOptions& options) {
  options.methods["/payments.v1.Payments/Charge"].authoriser =
      idempotency::AuthoriserFor<payments::v1::ChargeRequest>(
          [&accounts](const grpc::ServerContextBase& context,
                      const payments::v1::ChargeRequest& charge) {
            return accounts.MayCharge(context, charge.account())
                       ? absl::OkStatus()
                       : absl::PermissionDeniedError("not your account");
          });
}
// [policies:end]
