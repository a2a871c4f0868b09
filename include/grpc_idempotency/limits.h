// The limits that callers meet, and those that several parts share. A bound of one part alone is a
// named constant beside its code.
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
// A record's row is kept this much longer than its retention, or than its tombstone's. The
// store's clock may step back by up to this much, also in a failover to a server whose clock is
// behind: wherever the window opens again, the row still exists and its key is known. NTP steps
// by seconds; a larger step is an operator's mistake.
inline constexpr absl::Duration kClockStepMargin = absl::Minutes(5);
// How far ahead of the store's clock a UUIDv7 key may be.
inline constexpr absl::Duration kMaxKeyAhead = absl::Hours(24);

// The daemon. A batch of 256 is where storage throughput stops growing.
inline constexpr std::size_t kMaxBatch = 256;
// The replies that one store call loads into memory, exceeded by at most one reply: without a
// bound a batch of replays would take 2 GiB. Every connection has such a call, and each reply
// exists about five times until it is sent: in the database's text, in bytes, in a message, in
// a frame.
inline constexpr std::size_t kMaxBatchReplyBytes = 4 * 1024 * 1024;
inline constexpr std::size_t kMaxQueuedOperations = 16 * 1024;
// Queued operations and operations in progress, in bytes.
inline constexpr std::size_t kDefaultQueuedBytes = 256 * 1024 * 1024;
inline constexpr std::size_t kMaxWaiters = 64 * 1024;

// The admin service. Records of one page: 200 of the largest, without their replies, stay below
// the 4 MiB that gRPC receives by default.
inline constexpr int kDefaultListPage = 50;
inline constexpr int kMaxListPage = 200;
// Records that one page examines where filters leave some out.
inline constexpr int kMaxListVisited = 500;
// Records of one step of a purge, which is one transaction.
inline constexpr int kMaxPurgeStep = 500;
// The time in which one call of Purge begins steps; the caller continues with its token.
inline constexpr absl::Duration kPurgeCallTime = absl::Seconds(2);
// Records of one step of sealing anew, and the replies that it reads, exceeded by at most one. Each
// reply exists three times until it is written.
inline constexpr int kMaxResealStep = 100;
inline constexpr std::size_t kMaxResealStepBytes = 4 * 1024 * 1024;
// The time in which one call of Reseal begins steps.
inline constexpr absl::Duration kResealCallTime = kPurgeCallTime;
// Ids of damaged records that one call of Reseal names; it counts all of them.
inline constexpr int kMaxDamagedNamed = 100;
// Calls of the admin service that wait or run. They run one at a time.
inline constexpr std::size_t kMaxAdminCalls = 16;
// The part of them that only calls which need ADMIN take: lists do not keep a record from being
// settled.
inline constexpr std::size_t kReservedAdminCalls = 4;
// A request of the admin service once it is parsed; one of Resolve has a reply, too.
inline constexpr std::size_t kMaxAdminRequestBytes = 64 * 1024;
inline constexpr std::size_t kMaxResolveRequestBytes = kMaxReplyBytes + kMaxAdminRequestBytes;
// The name of an administrator in the audit log.
inline constexpr std::size_t kMaxActorBytes = 255;
// The reason of an administrator, as that of a release, which it may become.
inline constexpr std::size_t kMaxAdminReasonBytes = kMaxReleaseReasonBytes;

// Tracing. Spans that wait for the collector; more are dropped. One takes about 1.7 KB.
inline constexpr std::size_t kMaxQueuedSpans = 8 * 1024;
// Spans of one call to the collector.
inline constexpr std::size_t kMaxSpanBatch = 512;
// Links of the span of a store call, to its other sampled operations: as OpenTelemetry's SDKs.
inline constexpr std::size_t kMaxSpanLinks = 128;

// The log. The text of one line, without its time and level; a longer one is cut.
inline constexpr std::size_t kMaxLogLineBytes = 16 * 1024;
// Lines that wait while the reader of stderr does not read; more replace the oldest of them.
inline constexpr std::size_t kMaxQueuedLogLines = 1024;
// What that reader gets to read them when the process ends.
inline constexpr absl::Duration kLogFlushTime = absl::Seconds(1);

// The listener. Descriptors that are reserved for the store's sessions, files, metrics and gRPC
// itself; connections never get them.
inline constexpr int kReservedDescriptors = 256;
// A process with fewer logs a warning: every client of a replica needs one.
inline constexpr int kFewDescriptors = 4096;
// Connections, even if more descriptors are available: an idle one takes some 50 KiB with TLS.
inline constexpr int kMaxConnections = 8 * 1024;
// The time in which a new connection must finish its TLS handshake and send its settings.
inline constexpr absl::Duration kHandshakeTimeout = absl::Seconds(20);
// The time after which a connection without a call is closed.
inline constexpr absl::Duration kMaxConnectionIdle = absl::Minutes(10);
// How long a client may leave bytes or a ping unacknowledged.
inline constexpr absl::Duration kPeerTimeout = absl::Seconds(10);
// Concurrent calls on one connection; more wait in the client.
inline constexpr int kMaxStreams = 1024;
// Concurrent calls of all connections; further ones are refused. Four for each connection: a
// session, a second one while it moves, and unary calls. An idle one takes some 12 to 17 KiB, of
// which gRPC counts next to nothing.
inline constexpr int kMaxCalls = 4 * kMaxConnections;
// Calls of the health service, which are counted apart: a flood of others makes no replica
// unhealthy.
inline constexpr int kMaxHealthCalls = 1024;
// Refused calls whose callers have not read their status; more are cancelled.
inline constexpr int kMaxCallRefusals = 1024;
// The age at which a connection ends, so that clients find replicas that were added. Its calls
// may continue for the grace: twice kMaxWait; a session uses one of the two to move to another
// connection.
inline constexpr absl::Duration kMaxConnectionAge = absl::Minutes(15);
inline constexpr absl::Duration kConnectionGrace = absl::Seconds(120);
// The memory of bytes that gRPC has received on all connections and that are not yet parsed.
inline constexpr std::size_t kListenerBytes = 512 * 1024 * 1024;
// Threads for gRPC's channelz, if it is served. The services of this project use none.
inline constexpr int kMaxListenerThreads = 64;
// Threads of idempotencyd that wait for the network and begin operations.
inline constexpr int kMaxPollingThreads = 16;

// The metrics' listener. Concurrent scrapes: one more ends the oldest.
inline constexpr std::size_t kMaxScrapes = 32;
// From the connection to the last byte of the page.
inline constexpr absl::Duration kScrapeTimeout = absl::Seconds(10);
inline constexpr std::size_t kMaxScrapeRequestBytes = 8 * 1024;

// The console. Connections: one more ends the oldest of those without a permitted caller, and
// otherwise the oldest of all.
inline constexpr std::size_t kMaxConsoleConnections = 32;
// Without a request, a connection is closed after this time; a TLS handshake, a request and the
// writing of a response take no longer.
inline constexpr absl::Duration kConsoleTimeout = absl::Seconds(15);
// A request that is not answered by then ends its connection: the calls before it and a store that
// does not answer take no longer (kMaxAdminCalls, kPurgeCallTime).
inline constexpr absl::Duration kConsoleAnswerTime = absl::Seconds(60);
inline constexpr std::size_t kMaxConsoleHeaderBytes = 16 * 1024;
// A larger reply is stored by idempotencyctl.
inline constexpr std::size_t kMaxConsoleBodyBytes = 64 * 1024;

// The external processor. Exchanges in progress: each is a stream of a proxy.
inline constexpr std::size_t kMaxExchanges = 16 * 1024;
// The requests and replies that all of them hold together. Full duplex has no flow control.
inline constexpr std::size_t kMaxExchangeBytes = 256 * 1024 * 1024;
// A request's headers and body, unless the configuration sets more: as much as gRPC receives by
// default.
inline constexpr std::size_t kMaxExchangeRequestBytes = 4 * 1024 * 1024;
inline constexpr std::size_t kMaxConfiguredRequestBytes = 64 * 1024 * 1024;

// Access. A bearer token, of which each session keeps one; gRPC by default accepts as much metadata
// in all.
inline constexpr std::size_t kMaxTokenBytes = 8 * 1024;
// More keys than an issuer of tokens publishes while it rotates them.
inline constexpr std::size_t kMaxJsonWebKeys = 64;
// The configuration file, and the file with an issuer's keys: enough for thousands of identities.
inline constexpr std::size_t kMaxConfigBytes = 4 * 1024 * 1024;

// A key ring. Each key costs a retry of an older record an HMAC. A key that is replaced each month
// is needed for at most kMaxRetention more: 13 keys.
inline constexpr std::size_t kMaxKeyRingKeys = 32;
// Its file, comments included.
inline constexpr std::size_t kMaxKeyRingFileBytes = 64 * 1024;

// One reply of a Redis server is never larger: the largest record has a reply of kMaxReplyBytes,
// and sealing adds less than as much again.
inline constexpr std::size_t kMaxRedisReplyBytes = 64 * 1024 * 1024;

// A guard. Replies that a committed ledger transaction made durable, and that left before the store
// acknowledged them: so many at a time, each up to this size. Further and larger ones wait for the
// acknowledgement.
inline constexpr std::size_t kMaxRepliesAhead = 1024;
inline constexpr std::size_t kMaxReplyAheadBytes = 64 * 1024;

// A Session stream. Unanswered reservations and reads of one session: a quarter of the queue
// that all sessions share.
inline constexpr std::size_t kMaxSessionInFlight = 4 * 1024;
// Unanswered operations of every kind: at this number the session is no longer read.
inline constexpr std::size_t kMaxSessionUnanswered = 2 * kMaxSessionInFlight;
// The size of those operations: two of the largest messages.
inline constexpr std::size_t kMaxSessionUnansweredBytes = 2 * kMaxMessageBytes;
// Answers that are sent in one frame; a larger answer has a frame of its own.
inline constexpr std::size_t kMaxAnswerFrameBytes = 256 * 1024;
// Answers that the client has not read: at this size its session is no longer read.
inline constexpr std::size_t kMaxSessionUnwrittenBytes = 4 * 1024 * 1024;
// Within it a caller reads a frame before its session ends because of the number of such answers,
// unless those of all sessions have taken the whole memory that they may have.
inline constexpr absl::Duration kSessionReadTime = absl::Seconds(1);
// What a session may have of such answers, replies apart, however many all sessions have: as much
// as an idle one takes.
inline constexpr std::size_t kMinSessionAnswersBytes = 16 * 1024;
// At this size the session gets no more replies.
inline constexpr std::size_t kMaxSessionHeldBytes = 64 * 1024 * 1024;

}  // namespace idempotency::limits

#endif  // GRPC_IDEMPOTENCY_LIMITS_H_
