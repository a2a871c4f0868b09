#include "interceptors/ext_proc/exchange/content_coding.h"

#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

#include "core/absl_view.h"

namespace idempotency::internal {

std::string ContentCodings(const HeaderList& headers) {
  std::string codings;
  for (const std::string_view value : headers.ValuesOf("content-encoding")) {
    for (const absl::string_view part : absl::StrSplit(AbslView(value), ',')) {
      const std::string coding = absl::AsciiStrToLower(absl::StripAsciiWhitespace(part));
      if (coding.empty() || coding == "identity") continue;
      absl::StrAppend(&codings, codings.empty() ? "" : ",", coding);
    }
  }
  return codings;
}

}  // namespace idempotency::internal
