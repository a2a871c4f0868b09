// The limits that callers, clients and guards meet. Those of the service alone are in
// server/limits.h and server/store/limits.h.
#ifndef GRPC_IDEMPOTENCY_LIMITS_H_
#define GRPC_IDEMPOTENCY_LIMITS_H_

#include <cstddef>

#include "absl/time/time.h"

namespace idempotency::limits {

// Keys. 255 is what the IETF Idempotency-Key draft's users (Stripe, PayPal)
// settled on; it also keeps four parts and an index entry in one page.
inline constexpr std::size_t kMaxKeyBytes = 255;
inline constexpr std::size_t kMaxNamespaceBytes = 64;
inline constexpr std::size_t kMaxScopeBytes = 255;
inline constexpr std::size_t kMaxOperationBytes = 512;
// A client's name for its work (grpc_idempotency/client/key_store.h).
inline constexpr std::size_t kMaxWorkBytes = 512;

// The label of one call that a guarded handler makes.
inline constexpr std::size_t kMaxDownstreamLabelBytes = 255;
// A secret shorter than this can be guessed.
inline constexpr std::size_t kMinDownstreamSecretBytes = 16;

// Fingerprints. A change of the algorithm needs two versions; four allow a second change before
// the first has ended.
inline constexpr std::size_t kMaxFingerprints = 4;
inline constexpr std::size_t kMinDigestBytes = 16;
inline constexpr std::size_t kMaxDigestBytes = 64;

// Labels help an operator who looks up a record.
inline constexpr std::size_t kMaxLabels = 16;
inline constexpr std::size_t kMaxLabelKeyBytes = 64;
inline constexpr std::size_t kMaxLabelValueBytes = 256;
inline constexpr std::size_t kMaxReleaseReasonBytes = 1024;
inline constexpr std::size_t kMaxCheckpointBytes = 4 * 1024;
// The type and the id of a Reference, together: a name, not a document.
inline constexpr std::size_t kMaxReferenceBytes = 1024;

// A larger reply is completed without its content.
inline constexpr std::size_t kMaxReplyBytes = 8 * 1024 * 1024;
// The total size of a stream's captured messages, unless a policy sets more, up to
// kMaxReplyBytes. They are held in memory.
inline constexpr std::size_t kDefaultStreamBytes = 1024 * 1024;
// The size of a request to the service. A reply that is just over its limit must still arrive,
// so that it can be completed without its content.
inline constexpr std::size_t kMaxMessageBytes = 16 * 1024 * 1024;

// Durations.
inline constexpr absl::Duration kDefaultLease = absl::Seconds(30);
inline constexpr absl::Duration kMinLease = absl::Milliseconds(10);
inline constexpr absl::Duration kMaxLease = absl::Hours(1);
// How long a handler may hold its reservation by heartbeats.
inline constexpr absl::Duration kDefaultMaxLease = absl::Hours(1);
inline constexpr absl::Duration kMaxMaxLease = absl::Hours(24);
inline constexpr absl::Duration kDefaultRetention = absl::Hours(24);
inline constexpr absl::Duration kMinRetention = absl::Seconds(1);
inline constexpr absl::Duration kMaxRetention = absl::Hours(24 * 366);
// The retention of a reply, which does not exceed its record's.
inline constexpr absl::Duration kMinReplyRetention = absl::Seconds(1);
// How long the key of an expired record is still refused.
inline constexpr absl::Duration kMaxTombstone = absl::Hours(24 * 366);
inline constexpr absl::Duration kMaxWait = absl::Seconds(60);
// How long a release may keep its record from being granted again.
inline constexpr absl::Duration kMaxReleasePause = absl::Hours(1);
// How long after its creation an unknown UUIDv7 key may still start an operation.
inline constexpr absl::Duration kDefaultWindow = absl::Hours(24);
// How far ahead of the store's clock a UUIDv7 key may be.
inline constexpr absl::Duration kMaxKeyAhead = absl::Hours(24);

// The service's queue. Operations that wait for the store or that it decides.
inline constexpr std::size_t kMaxQueuedOperations = 16 * 1024;
// Their size.
inline constexpr std::size_t kDefaultQueuedBytes = 256 * 1024 * 1024;
// Unanswered reservations and reads of one session: a quarter of the queue that all sessions share.
inline constexpr std::size_t kMaxSessionInFlight = 4 * 1024;

// A bearer token. Each session of the service keeps one; gRPC by default accepts as much metadata
// in all.
inline constexpr std::size_t kMaxTokenBytes = 8 * 1024;

// Tracing. Spans that wait for the collector; more are dropped. One takes about 1.7 KB.
inline constexpr std::size_t kMaxQueuedSpans = 8 * 1024;

}  // namespace idempotency::limits

#endif  // GRPC_IDEMPOTENCY_LIMITS_H_
