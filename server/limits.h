// The limits of the service and of the daemon's listeners and files. Those that callers meet are in
// grpc_idempotency/limits.h, those of one call of a store in server/store/limits.h.
#ifndef IDEMPOTENCY_SERVER_LIMITS_H_
#define IDEMPOTENCY_SERVER_LIMITS_H_

#include <cstddef>

#include "absl/time/time.h"

#include "grpc_idempotency/limits.h"

namespace idempotency::limits {

// Callers that wait for a running attempt.
inline constexpr std::size_t kMaxWaiters = 64 * 1024;

// The admin service. The time in which one call of Purge begins steps; the caller continues with
// its token.
inline constexpr absl::Duration kPurgeCallTime = absl::Seconds(2);
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
// The reason of an administrator, as that of a release, which it may become.
inline constexpr std::size_t kMaxAdminReasonBytes = kMaxReleaseReasonBytes;

// The log. The text of one line, without its time and level; a longer one is cut.
inline constexpr std::size_t kMaxLogLineBytes = 16 * 1024;
// Lines that wait while the reader of stderr does not read; more replace the oldest of them.
inline constexpr std::size_t kMaxQueuedLogLines = 1024;
// How long the process waits at its end for these lines to be written.
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

// Access. More keys than an issuer of tokens publishes while it rotates them.
inline constexpr std::size_t kMaxJsonWebKeys = 64;
// The configuration file, and the file with an issuer's keys: enough for thousands of identities.
inline constexpr std::size_t kMaxConfigBytes = 4 * 1024 * 1024;

// A key ring. Each key costs a retry of an older record an HMAC. A key that is replaced each month
// is needed for at most kMaxRetention more: 13 keys.
inline constexpr std::size_t kMaxKeyRingKeys = 32;
// Its file, comments included.
inline constexpr std::size_t kMaxKeyRingFileBytes = 64 * 1024;

// A Session stream. Unanswered operations of every kind: the server stops reading the session at
// this number.
inline constexpr std::size_t kMaxSessionUnanswered = 2 * kMaxSessionInFlight;
// The size of those operations: two of the largest messages.
inline constexpr std::size_t kMaxSessionUnansweredBytes = 2 * kMaxMessageBytes;
// Answers that are sent in one frame; a larger answer has a frame of its own.
inline constexpr std::size_t kMaxAnswerFrameBytes = 256 * 1024;
// Answers that the client has not read: the server stops reading its session at this size.
inline constexpr std::size_t kMaxSessionUnwrittenBytes = 4 * 1024 * 1024;
// A caller has this long to read a frame before its session is ended for the number of its unread
// answers. It has no such time once those of all sessions together take their whole memory.
inline constexpr absl::Duration kSessionReadTime = absl::Seconds(1);
// A session may always hold this much of unread answers, replies apart, however much all sessions
// hold: the size of an idle session.
inline constexpr std::size_t kMinSessionAnswersBytes = 16 * 1024;
// At this size the session gets no more replies.
inline constexpr std::size_t kMaxSessionHeldBytes = 64 * 1024 * 1024;

}  // namespace idempotency::limits

#endif  // IDEMPOTENCY_SERVER_LIMITS_H_
