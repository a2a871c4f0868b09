#include "server/console/console.h"

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "server/console/page.h"
#include "server/console/safeguards.h"

namespace idempotency::internal {
namespace {

HttpResponse FileAnswer(absl::string_view target) {
  const absl::string_view path = target.substr(0, target.find('?'));
  for (const PageFile& file : PageFiles()) {
    if (path != file.path) continue;
    HttpResponse response;
    response.content_type = std::string(file.content_type);
    response.body = std::string(file.content);
    return response;
  }
  return ErrorAnswer(absl::NotFoundError("the console has no such page; it begins at /"));
}

HttpResponse MethodRefusal(const char* allowed) {
  HttpResponse response = ErrorAnswer(absl::InvalidArgumentError(
      absl::StrCat("the method must be ", allowed, " for this address")));
  response.status = 405;
  response.headers.emplace_back("Allow", allowed);
  return response;
}

}  // namespace

void Console::Answer(const HttpRequest& request, const HttpReply& reply) const {
  absl::string_view method = request.target;
  if (!absl::ConsumePrefix(&method, "/api/")) {
    const bool reads = request.method == "GET" || request.method == "HEAD";
    return reply(reads ? FileAnswer(request.target) : MethodRefusal("GET, HEAD"));
  }
  if (request.method != "POST") return reply(MethodRefusal("POST"));
  if (const absl::Status refused = CheckSender(request, access_); !refused.ok()) {
    return reply(ErrorAnswer(refused));
  }
  api_.Call({method.data(), method.size()}, request.body, request.credentials, reply);
}

}  // namespace idempotency::internal
