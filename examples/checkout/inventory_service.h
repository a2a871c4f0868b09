#ifndef IDEMPOTENCY_EXAMPLES_CHECKOUT_INVENTORY_SERVICE_H_
#define IDEMPOTENCY_EXAMPLES_CHECKOUT_INVENTORY_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <string>
#include <utility>

#include "examples/checkout/book.h"
#include "examples/checkout/checkout.grpc.pb.h"
#include "examples/checkout/fail_point.h"

namespace checkout {

// The second step: goods taken are an entry in the book. Thread-safe.
class InventoryService final : public v1::Inventory::Service {
 public:
  // Does not own `book`. Refuses the item `not_sold` for good.
  InventoryService(Book& book, FailPoint fail_point, std::string not_sold)
      : book_(book), fail_point_(std::move(fail_point)), not_sold_(std::move(not_sold)) {}

  // Crashes, if requested, at "before-effect" and "before-reply".
  grpc::Status Take(grpc::ServerContext* context, const v1::TakeRequest* request,
                    v1::TakeReply* reply) override;

 private:
  Book& book_;
  const FailPoint fail_point_;
  const std::string not_sold_;
};

}  // namespace checkout

#endif  // IDEMPOTENCY_EXAMPLES_CHECKOUT_INVENTORY_SERVICE_H_
