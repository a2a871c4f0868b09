#ifndef IDEMPOTENCY_SERVER_OBSERVABILITY_EVENTS_H_
#define IDEMPOTENCY_SERVER_OBSERVABILITY_EVENTS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "core/sha256.h"
#include "grpc_idempotency/uuid.h"
#include "server/store/admin_operations.h"

// What the events of an Observer are about, with the names that metrics have for it.
namespace idempotency::internal {

// A limit of a namespace.
enum class QuotaLimit { kRate, kInFlight, kWaiting, kRecords, kReplyBytes, kRetention };
inline constexpr QuotaLimit kAllQuotaLimits[] = {QuotaLimit::kRate,       QuotaLimit::kInFlight,
                                                 QuotaLimit::kWaiting,    QuotaLimit::kRecords,
                                                 QuotaLimit::kReplyBytes, QuotaLimit::kRetention};

constexpr std::string_view QuotaLimitName(QuotaLimit limit) {
  switch (limit) {
    case QuotaLimit::kRate:
      return "rate";
    case QuotaLimit::kInFlight:
      return "in_flight";
    case QuotaLimit::kWaiting:
      return "waiting";
    case QuotaLimit::kRecords:
      return "records";
    case QuotaLimit::kReplyBytes:
      return "reply_bytes";
    case QuotaLimit::kRetention:
      return "retention";
  }
  return "";
}

// The current state of the store's connection pool.
struct StoreConnections {
  int in_use = 0;
  int idle = 0;
  // Found broken and not replaced yet.
  int broken = 0;
};

// Why a connection was closed: right after it was accepted, but for kStreams.
enum class ConnectionRefusal {
  // The process has its maximum.
  kLimit,
  // Its address has its maximum.
  kPeerLimit,
  // No descriptor or memory was left for it.
  kNoDescriptor,
  // Its client did not keep to the number of streams that the server allows, or another of its host
  // did not, just before.
  kStreams,
};
inline constexpr ConnectionRefusal kAllConnectionRefusals[] = {
    ConnectionRefusal::kLimit, ConnectionRefusal::kPeerLimit, ConnectionRefusal::kNoDescriptor,
    ConnectionRefusal::kStreams};

constexpr std::string_view RefusalName(ConnectionRefusal refusal) {
  switch (refusal) {
    case ConnectionRefusal::kLimit:
      return "limit";
    case ConnectionRefusal::kPeerLimit:
      return "peer_limit";
    case ConnectionRefusal::kNoDescriptor:
      return "no_descriptor";
    case ConnectionRefusal::kStreams:
      return "streams";
  }
  return "";
}

// Why a call was refused when it arrived.
enum class CallRefusal {
  // The process has its maximum.
  kLimit,
  // Its address has its maximum.
  kPeerLimit,
};
inline constexpr CallRefusal kAllCallRefusals[] = {CallRefusal::kLimit, CallRefusal::kPeerLimit};

constexpr std::string_view RefusalName(CallRefusal refusal) {
  switch (refusal) {
    case CallRefusal::kLimit:
      return "limit";
    case CallRefusal::kPeerLimit:
      return "peer_limit";
  }
  return "";
}

// Which bound refused an operation.
enum class ShedReason {
  // The queue, or the memory: the service has too much to do.
  kQueue,
  // The namespace's share of the memory for replies that callers have not read, and for callers
  // that wait.
  kReplies,
  // The operations that one session may have in flight.
  kSession,
};
inline constexpr ShedReason kAllShedReasons[] = {ShedReason::kQueue, ShedReason::kReplies,
                                                 ShedReason::kSession};

constexpr std::string_view ShedReasonName(ShedReason reason) {
  switch (reason) {
    case ShedReason::kQueue:
      return "queue";
    case ShedReason::kReplies:
      return "replies";
    case ShedReason::kSession:
      return "session";
  }
  return "";
}

// Which certificates of the listener.
enum class CertificateUse { kServer, kClientCa };
inline constexpr CertificateUse kAllCertificateUses[] = {CertificateUse::kServer,
                                                         CertificateUse::kClientCa};

constexpr std::string_view CertificateUseName(CertificateUse use) {
  switch (use) {
    case CertificateUse::kServer:
      return "server";
    case CertificateUse::kClientCa:
      return "client_ca";
  }
  return "";
}

// When a certificate is valid.
struct CertificateValidity {
  absl::Time not_before;
  absl::Time not_after;
};

// An action of an administrator, in one transaction. Only loggable values; never a key or a scope.
struct AdminAct {
  AuditAction action = AuditAction::kPurged;
  AdminNote note;
  std::string name_space;
  bool forced = false;
  // At least one.
  std::vector<RecordId> records;
  // The HMAC of the key, if the act was on one record.
  std::optional<Sha256Digest> key_hmac;
};

// An operation that its caller may not do. Only loggable values; never a credential, a key or a
// scope.
struct RefusedCaller {
  // UNAUTHENTICATED or PERMISSION_DENIED.
  absl::Status status;
  // Of the configuration; empty if it is not known.
  std::string identity;
  // Empty if the operation names none.
  std::string name_space;
  // gRPC's text of its address.
  std::string peer;
  // A call of IdempotencyAdminService or of the console.
  bool is_administration = false;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_OBSERVABILITY_EVENTS_H_
