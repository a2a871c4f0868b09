#ifndef GRPC_IDEMPOTENCY_SERVER_GUARD_NORMALISER_H_
#define GRPC_IDEMPOTENCY_SERVER_GUARD_NORMALISER_H_

#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/message.h"

namespace idempotency {

// Makes requests with the same meaning equal before they are compared: fills in the server's
// defaults, rounds amounts, sorts lists. Works on a copy; the handler gets the request as it
// was sent. A status other than OK becomes the call's status: nothing is reserved and nothing
// runs. It must give the same result for the same request for the lifetime of the records
// (docs/fingerprint.md). Called on gRPC's threads: it must be thread-safe and must not block.
using Normaliser = std::function<absl::Status(google::protobuf::Message& copy)>;

// The same for one generated message type, which must be the method's request:
//
//   NormaliserFor<ChargeRequest>([](ChargeRequest& charge) {
//     if (charge.currency().empty()) charge.set_currency("EUR");
//     return absl::OkStatus();
//   })
//
// INTERNAL for a request of another type.
template <typename Request, typename Function>
Normaliser NormaliserFor(Function normalise) {
  return [normalise = std::move(normalise)](google::protobuf::Message& copy) -> absl::Status {
    auto* const request = google::protobuf::DynamicCastToGenerated<Request>(&copy);
    if (request != nullptr) return normalise(*request);
    return absl::InternalError(absl::StrCat("the normaliser of ", copy.GetTypeName(),
                                            " is made for ", Request::descriptor()->full_name(),
                                            "; nothing was run"));
  };
}

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_NORMALISER_H_
