#ifndef IDEMPOTENCY_SERVER_CONSOLE_PAGE_H_
#define IDEMPOTENCY_SERVER_CONSOLE_PAGE_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace idempotency::internal {

// A file of the page, in the program.
struct PageFile {
  // The path of the request: "/" or "/console.js".
  absl::string_view path;
  absl::string_view content_type;
  absl::string_view content;
};

// All of server/console/page/. Thread-safe.
absl::Span<const PageFile> PageFiles();

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_CONSOLE_PAGE_H_
