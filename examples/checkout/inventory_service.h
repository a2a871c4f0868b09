#ifndef IDEMPOTENCY_EXAMPLES_CHECKOUT_INVENTORY_SERVICE_H_
#define IDEMPOTENCY_EXAMPLES_CHECKOUT_INVENTORY_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <utility>

#include "examples/checkout/book.h"
#include "examples/checkout/checkout.grpc.pb.h"
#include "examples/checkout/fail_point.h"

namespace checkout {

// The second step: goods taken are an entry in the book. Thread-safe.
class InventoryService final : public v1::Inventory::Service {
 public:
  // Does not own `book`.
  InventoryService(Book& book, FailPoint fail_point)
      : book_(book), fail_point_(std::move(fail_point)) {}

  // Crashes, if requested, at "before-effect" and "before-reply".
  grpc::Status Take(grpc::ServerContext* context, const v1::TakeRequest* request,
                    v1::TakeReply* reply) override;

 private:
  Book& book_;
  const FailPoint fail_point_;
};

}  // namespace checkout

#endif  // IDEMPOTENCY_EXAMPLES_CHECKOUT_INVENTORY_SERVICE_H_
