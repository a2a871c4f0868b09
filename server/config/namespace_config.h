#ifndef IDEMPOTENCY_SERVER_CONFIG_NAMESPACE_CONFIG_H_
#define IDEMPOTENCY_SERVER_CONFIG_NAMESPACE_CONFIG_H_

#include <optional>
#include <string>

#include "absl/time/time.h"

#include "idempotency/config/v1/config.pb.h"
#include "server/config/config_faults.h"
#include "server/config/config_place.h"
#include "server/tenants/namespace_settings.h"

namespace idempotency::internal {

// The time of a field `not_before` of the message at `place`, or nullopt if `text` is empty.
std::optional<absl::Time> ReadNotBefore(const std::string& text, const ConfigPlace& place,
                                        ConfigFaults& faults);

// Checks the settings of one namespace and translates them.
NamespaceSettings ReadNamespace(const config::v1::Namespace& name_space, const ConfigPlace& place,
                                ConfigFaults& faults);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_CONFIG_NAMESPACE_CONFIG_H_
