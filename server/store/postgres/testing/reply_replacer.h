#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_TESTING_REPLY_REPLACER_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_TESTING_REPLY_REPLACER_H_

#include "grpc_idempotency/reply.h"
#include "server/store/reseal_operations.h"

namespace idempotency::internal {

// Replaces every reply, in place of resealing it.
class ReplyReplacer final : public ContentSealer {
 public:
  ResealedContent Reseal(const StoredContent& stored) override {
    ResealedContent after;
    if (stored.reply) {
      v1::Reply reply;
      reply.set_body("sealed anew");
      after.reply = EncodeReply(reply);
    }
    return after;
  }
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_TESTING_REPLY_REPLACER_H_
