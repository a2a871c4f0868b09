#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_H_

#include <grpcpp/server_context.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace idempotency {

// What a handler may know and say about its own guarded execution. Thread-safe;
// valid until the handler's reply has been sent.
class Execution {
 public:
  virtual ~Execution() = default;

  // The execution that `context` belongs to; nullptr in an unguarded call.
  static Execution* Of(grpc::ServerContextBase* context);

  // 1 for the first run of this record, 2 after one that did not complete, ...
  virtual std::uint32_t attempt() const = 0;
  // The record's id, as in the `idempotency-record` metadata.
  virtual const std::string& record_id() const = 0;
  // True once the reservation is known to be lost, and while the lease has run
  // out unheard: another attempt may run.
  virtual bool lost() const = 0;

  // The handler's word that no effect took place: if it then fails with a code
  // that is not recorded, the reservation is released at once and the next
  // attempt may run. Has no meaning after OK or a recorded code.
  virtual void NothingHappened() = 0;

  // Names what this execution made, for example ("payment", "pay_42"): under
  // the policy REPLY_REFERENCE it is what is stored of an OK reply, and what
  // the method's loader gets to make a replay. The last call counts. UTF-8, up
  // to 1 KiB together; anything else is logged and not kept. Has no meaning
  // under another policy.
  virtual void RefersTo(std::string_view type, std::string_view id) = 0;
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_H_
