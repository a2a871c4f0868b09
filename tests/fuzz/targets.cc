#include "tests/fuzz/targets.h"

namespace idempotency::internal::fuzz {

std::vector<Target> AllTargets() {
  return {
      {"access_tokens", AccessTokens},       {"addresses", Addresses},
      {"client_session", ClientSession},     {"command_line", CommandLineArguments},
      {"error_details", ErrorDetailsOnWire}, {"external_processor", ExternalProcessorMessages},
      {"fingerprint", FingerprintedRequest}, {"guarded_calls", GuardedCalls},
      {"key_metadata", KeyMetadata},         {"parent_and_trace", ParentAndTrace},
      {"policy_option", PolicyOption},       {"record_keys", RecordKeys},
      {"server_session", ServerSession},     {"sqlite_rows", SqliteRows},
      {"stored_values", StoredValues},       {"unary_requests", UnaryRequests},
  };
}

}  // namespace idempotency::internal::fuzz
