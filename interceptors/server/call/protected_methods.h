#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_PROTECTED_METHODS_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_PROTECTED_METHODS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/descriptor.h"

#include "grpc_idempotency/server_guard/guard_options.h"
#include "interceptors/server/call/capturing_interceptor.h"
#include "interceptors/server/call/guarded_method.h"
#include "interceptors/server/call/pending_call.h"
#include "interceptors/server/execution/guarded_operation.h"
#include "interceptors/server/log/guard_log.h"
#include "interceptors/server/policy/resolved_policy.h"

namespace idempotency::internal {

// The methods of the services that a guard protects, each with its policy, and the guarded ones
// among them. Checked together, before the server starts: a method is named with its host, if the
// service has its own, and its path.
//
// Thread-compatible.
class ProtectedMethods {
 public:
  // Makes the guarded operation of a method; `name` is that of its records.
  using MakeOperation = absl::FunctionRef<GuardedOperation(
      std::string name, const google::protobuf::MethodDescriptor& method,
      const ResolvedPolicy& policy, std::shared_ptr<GuardLog> log)>;

  // `options` outlive it.
  ProtectedMethods(const GuardOptions& options, std::shared_ptr<GuardLog> log)
      : options_(options), log_(std::move(log)) {}

  // Adds the methods of a service, all of them or none. Returns what admits the calls of each, in
  // their order, with nullptr for one that is not guarded. INVALID_ARGUMENT with the faults of all
  // policies, or for a record's operation that cannot be stored; FAILED_PRECONDITION for a service
  // that was added.
  absl::StatusOr<std::vector<CallAdmitter*>> Add(const google::protobuf::ServiceDescriptor& service,
                                                 const std::string& host,
                                                 MakeOperation make_operation);

  bool empty() const { return policies_.empty(); }
  // FAILED_PRECONDITION: an option names a method that is not here, a guarded method has no choice
  // for unknown outcomes, or methods whose records have one operation do not treat them alike.
  absl::Status Check() const;
  // Logs each policy once, and warns of those that may run a call twice.
  void Log() const;

  // Of the guarded methods, without hosts.
  InterceptorFactory::Paths paths() const;
  // Of those among them whose streams are guarded.
  InterceptorFactory::Paths stream_paths() const;
  std::uint64_t calls_failed_open() const;

 private:
  // One for each method. INVALID_ARGUMENT with all faults.
  absl::StatusOr<std::vector<ResolvedPolicy>> Resolve(
      const google::protobuf::ServiceDescriptor& service) const;
  absl::Status CheckNames() const;
  absl::Status CheckChoices() const;
  absl::Status CheckSharedOperations() const;
  // Where the method's records have another operation, a text that names it; else "".
  std::string RecordsOf(const std::string& operation) const;

  const GuardOptions& options_;
  const std::shared_ptr<GuardLog> log_;
  std::map<std::string, ResolvedPolicy> policies_;
  std::map<std::string, std::unique_ptr<GuardedMethod>> guarded_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_PROTECTED_METHODS_H_
