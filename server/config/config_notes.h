#ifndef IDEMPOTENCY_SERVER_CONFIG_CONFIG_NOTES_H_
#define IDEMPOTENCY_SERVER_CONFIG_CONFIG_NOTES_H_

#include <string>
#include <vector>

#include "server/config/config_file.h"

namespace idempotency::internal {

// Parts of a valid configuration that are probably not meant: limits that bind no caller, and an
// external processor that some addresses or requests cannot use. One sentence each.
std::vector<std::string> NotesOn(const LoadedConfig& loaded);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_CONFIG_CONFIG_NOTES_H_
