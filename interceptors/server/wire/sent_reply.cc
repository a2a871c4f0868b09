#include "interceptors/server/wire/sent_reply.h"

#include <utility>

namespace idempotency::internal {

SentReply::SentReply(std::shared_ptr<const v1::Reply> stored, MetadataEntries trailers)
    : stored_(std::move(stored)), trailers_(std::move(trailers)) {}

SentReply::SentReply(v1::Reply reply)
    : stored_(std::make_shared<const v1::Reply>(std::move(reply))) {}

v1::Reply SentReply::Whole() const {
  v1::Reply whole = *stored_;
  AddTrailers(trailers_, whole);
  return whole;
}

}  // namespace idempotency::internal
