#include "tests/integration/effects.h"

#include <string>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/uuid.h"

namespace idempotency::internal::testing {

ProbeHandler Effects::Handler() {
  return [this](grpc::ServerContextBase& context, const ActRequest& request, ActReply& reply) {
    {
      MutexLock lock(mutex_);
      ++runs_[request.account()];
    }
    const std::string effect = Uuid::Random().ToString();
    reply.set_effect(effect);
    reply.set_total(request.amount());
    for (int i = 0; i < 8; ++i) (*reply.mutable_notes())[absl::StrCat("note-", i)] = effect;
    context.AddInitialMetadata("probe-initial", effect);
    context.AddTrailingMetadata("probe-trailing-bin", absl::StrCat(effect, std::string(1, '\0')));
    return grpc::Status::OK;
  };
}

std::map<std::string, int> Effects::Runs() {
  MutexLock lock(mutex_);
  return runs_;
}

}  // namespace idempotency::internal::testing
