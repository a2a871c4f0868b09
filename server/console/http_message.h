#ifndef IDEMPOTENCY_SERVER_CONSOLE_HTTP_MESSAGE_H_
#define IDEMPOTENCY_SERVER_CONSOLE_HTTP_MESSAGE_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "server/access/credentials.h"
#include "server/queue/memory_budget.h"

namespace idempotency::internal {

// A request with the headers that decide something. A header that was sent more than once is
// refused before.
struct HttpRequest {
  std::string method;
  // With its query, if any.
  std::string target;
  std::string host;
  // Empty if they were not sent.
  std::string origin;
  std::string fetch_site;
  std::string content_type;
  std::string console_header;
  std::string body;
  // The credentials of the connection and of this request.
  Credentials credentials;
  // Over TLS.
  bool secure = false;
};

struct HttpResponse {
  unsigned status = 200;
  std::string content_type;
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  // The body's part of the memory budget, until it has been written.
  MemoryBudget::Hold hold;
};

// Called once, on any thread; also after the connection or the listener has ended.
using HttpReply = std::function<void(HttpResponse)>;

// Answers a request, now or later. Does not block.
using HttpHandler = std::function<void(HttpRequest, HttpReply)>;

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_CONSOLE_HTTP_MESSAGE_H_
