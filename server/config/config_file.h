#ifndef IDEMPOTENCY_SERVER_CONFIG_CONFIG_FILE_H_
#define IDEMPOTENCY_SERVER_CONFIG_CONFIG_FILE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "idempotency/config/v1/config.pb.h"
#include "server/access/access_policy.h"
#include "server/tenants/namespace_settings.h"

namespace idempotency::internal {

// A configuration file that was read and is valid, with the files that it names.
struct LoadedConfig {
  config::v1::Config config;
  AccessRules access;
  NamespaceSettingsMap namespaces;
  // For every namespace, also those that are not listed; nullopt: none.
  std::optional<absl::Time> not_before;
  // The content of external_processor.descriptor_sets, in their order.
  std::vector<std::string> descriptor_sets;
  // A digest of all of these files' content, to detect a change.
  Sha256Digest digest;
};

// Reads and validates the file. INVALID_ARGUMENT lists every fault as `FILE:LINE: what is wrong
// and what to write`, one on a line.
absl::StatusOr<LoadedConfig> LoadConfig(const std::string& path);

// The configuration in protobuf text format, with digests of tokens replaced: a token that was not
// chosen at random could be found by its digest.
std::string PrintConfig(const config::v1::Config& config);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_CONFIG_CONFIG_FILE_H_
