#include "examples/checkout/inventory_service.h"

#include <string>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/server_guard/execution.h"

namespace checkout {
namespace {

// The failure may be temporary: the same key may be sent again.
grpc::Status Open(const absl::Status& why) {
  return {grpc::StatusCode::UNAVAILABLE, std::string(why.message())};
}

}  // namespace

grpc::Status InventoryService::Take(grpc::ServerContext* context, const v1::TakeRequest* request,
                                    v1::TakeReply* reply) {
  auto* execution = idempotency::Execution::FromContext(context);
  if (execution == nullptr) return {grpc::StatusCode::INTERNAL, "not guarded"};
  const std::string& record_id = execution->record_id();
  if (auto begun = book_.Begin(record_id, execution->attempt()); !begun.ok()) return Open(begun);
  if (request->item() == not_sold_) {
    return {grpc::StatusCode::FAILED_PRECONDITION,
            absl::StrCat(not_sold_, " is not sold any more")};
  }
  fail_point_.Reach("before-effect");
  const absl::Status entered = book_.Enter(
      record_id,
      absl::StrCat(request->quantity(), " ", request->item(), " for order ", request->order_id()));
  if (!entered.ok()) return Open(entered);
  fail_point_.Reach("before-reply");
  reply->set_picking_id(record_id);
  return grpc::Status::OK;
}

}  // namespace checkout
