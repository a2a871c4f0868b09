// Every limit of the product, in one place.
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
// A client's own name of its work (grpc_idempotency/client/key_store.h).
inline constexpr std::size_t kMaxWorkBytes = 512;

// Names one of the calls that a guarded handler makes.
inline constexpr std::size_t kMaxDownstreamLabelBytes = 255;
// A secret shorter than this can be guessed.
inline constexpr std::size_t kMinDownstreamSecretBytes = 16;

// Fingerprints: two versions are needed to roll an algorithm over; four leaves
// room for a second roll-over before the first has ended.
inline constexpr std::size_t kMaxFingerprints = 4;
inline constexpr std::size_t kMinDigestBytes = 16;
inline constexpr std::size_t kMaxDigestBytes = 64;

// Labels are for people who look a record up.
inline constexpr std::size_t kMaxLabels = 16;
inline constexpr std::size_t kMaxLabelKeyBytes = 64;
inline constexpr std::size_t kMaxLabelValueBytes = 256;
inline constexpr std::size_t kMaxReleaseReasonBytes = 1024;
inline constexpr std::size_t kMaxCheckpointBytes = 4 * 1024;
// Type and id of what a reply refers to, together: a name, not a document.
inline constexpr std::size_t kMaxReferenceBytes = 1024;

// A reply over this is completed without its content.
inline constexpr std::size_t kMaxReplyBytes = 8 * 1024 * 1024;
// What the captured messages of a stream weigh together, unless a policy says
// more, up to kMaxReplyBytes: they are held in memory.
inline constexpr std::size_t kDefaultStreamBytes = 1024 * 1024;
// What a request to the service may weigh: a reply that is just over the limit
// must still arrive, so that it can be completed without its content.
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
// A reply's own, which is not over its record's.
inline constexpr absl::Duration kMinReplyRetention = absl::Seconds(1);
// How long a forgotten record's key is still refused.
inline constexpr absl::Duration kMaxTombstone = absl::Hours(24 * 366);
inline constexpr absl::Duration kMaxWait = absl::Seconds(60);
// How long a release may keep its record from being granted again.
inline constexpr absl::Duration kMaxReleasePause = absl::Hours(1);
// How long after its creation an unknown UUIDv7 key may still start.
inline constexpr absl::Duration kDefaultWindow = absl::Hours(24);
// How much longer than its retention, or its tombstone's, a record's row is kept. The
// store's clock may step back by up to this much, also with a failover to a server whose
// clock is behind: the row is there, and its key is known, wherever the window opens
// again. NTP steps by seconds; more than this is an operator's mistake.
inline constexpr absl::Duration kClockStepMargin = absl::Minutes(5);
// How far ahead of the store's clock a UUIDv7 key may be.
inline constexpr absl::Duration kMaxKeyAhead = absl::Hours(24);

// The daemon. A batch of 256 is where storage throughput stops growing.
inline constexpr std::size_t kMaxBatch = 256;
// The replies that one call of the store brings into memory, give or take the
// last one: without a bound a batch of replays would weigh 2 GiB. Every
// connection has such a call, and a reply is there about five times over until it
// has left: in the database's text, in bytes, in a message, in a frame.
inline constexpr std::size_t kMaxBatchReplyBytes = 4 * 1024 * 1024;
inline constexpr std::size_t kMaxQueuedOperations = 16 * 1024;
// What is queued or being done.
inline constexpr std::size_t kDefaultQueuedBytes = 256 * 1024 * 1024;
inline constexpr std::size_t kMaxWaiters = 64 * 1024;

// The listener. Descriptors that connections never get: those of the store's sessions,
// files, metrics and gRPC itself.
inline constexpr int kReservedDescriptors = 256;
// A process with fewer is told so: every client of a replica needs one.
inline constexpr int kFewDescriptors = 4096;
// Connections, whatever the descriptors allow: an idle one weighs some 50 KiB with TLS.
inline constexpr int kMaxConnections = 8 * 1024;
// Until a new connection must have finished its TLS handshake and sent its settings.
inline constexpr absl::Duration kHandshakeTimeout = absl::Seconds(20);
// Until a connection without a call is closed.
inline constexpr absl::Duration kMaxConnectionIdle = absl::Minutes(10);
// How long a client may leave bytes or a ping unacknowledged.
inline constexpr absl::Duration kPeerTimeout = absl::Seconds(10);
// Calls at a time on one connection; more wait in the client.
inline constexpr int kMaxStreams = 1024;
// Then a connection ends, so that clients find replicas that were added. Its calls may
// go on for the grace: twice kMaxWait, of which a session has one to be moved in.
inline constexpr absl::Duration kMaxConnectionAge = absl::Minutes(15);
inline constexpr absl::Duration kConnectionGrace = absl::Seconds(120);
// What gRPC holds for all connections: what was received and not yet parsed, and the
// calls themselves.
inline constexpr std::size_t kListenerBytes = 512 * 1024 * 1024;
// Threads for the services that gRPC brings along, such as reflection. Ours have none.
inline constexpr int kMaxListenerThreads = 64;

// The metrics' listener. Scrapes at a time: the oldest one ends when another comes.
inline constexpr std::size_t kMaxScrapes = 32;
// From the connection to the last byte of the page.
inline constexpr absl::Duration kScrapeTimeout = absl::Seconds(10);
inline constexpr std::size_t kMaxScrapeRequestBytes = 8 * 1024;

// A Session stream. Unanswered reservations and reads of one session: a quarter
// of the queue that all of them share.
inline constexpr std::size_t kMaxSessionInFlight = 4 * 1024;
// Operations of every kind: from here on a session is not read.
inline constexpr std::size_t kMaxSessionUnanswered = 2 * kMaxSessionInFlight;
// And what those weigh: two of the largest messages.
inline constexpr std::size_t kMaxSessionUnansweredBytes = 2 * kMaxMessageBytes;
// Answers that leave together; a larger one has a frame of its own.
inline constexpr std::size_t kMaxAnswerFrameBytes = 256 * 1024;
// Answers that a caller has not fetched: from here on its session is not read.
inline constexpr std::size_t kMaxSessionUnwrittenBytes = 4 * 1024 * 1024;
// And from here on it gets no more replies.
inline constexpr std::size_t kMaxSessionHeldBytes = 64 * 1024 * 1024;

}  // namespace idempotency::limits

#endif  // GRPC_IDEMPOTENCY_LIMITS_H_
