#ifndef IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_REPLY_DIGEST_H_
#define IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_REPLY_DIGEST_H_

#include <string>
#include <string_view>

namespace idempotency::internal::testing {

// Represents bytes in a history: equal for equal ones.
std::string Digest(std::string_view bytes);
// The same for a reply: its sender and its receiver digest the same parts.
std::string ReplyDigest(int code, std::string_view message, std::string_view body);

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_REPLY_DIGEST_H_
