// Which requests reach a method, and which pages are served.
#include "server/console/console.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "idempotency/v1/admin_service.pb.h"
#include "server/console/page.h"
#include "server/console/safeguards.h"
#include "server/console/testing/console_service.h"

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class ConsoleTest : public ::testing::Test {
 protected:
  HttpResponse Answer(const HttpRequest& request) {
    AwaitedResponse response;
    console_.Answer(request, response.Sink());
    return response.Await();
  }
  unsigned StatusOf(const HttpRequest& request) { return Answer(request).status; }
  absl::Status Sender(const HttpRequest& request) {
    return CheckSender(request, service_.parts().access);
  }

  // As the page of `host` sends it.
  static HttpRequest Call(const std::string& host = "localhost:7412") {
    HttpRequest request;
    request.method = "POST";
    request.target = "/api/Overview";
    request.host = host;
    request.origin = "http://" + host;
    request.fetch_site = "same-origin";
    request.content_type = "application/json";
    request.console_header = "1";
    request.body = "{}";
    request.credentials = ConsoleService::Of("reader");
    return request;
  }
  static HttpRequest Get(const std::string& target) {
    HttpRequest request;
    request.method = "GET";
    request.target = target;
    request.host = "localhost:7412";
    return request;
  }

  ConsoleService service_;
  Console console_{service_.parts()};
};

TEST_F(ConsoleTest, ServesThePageAndItsFiles) {
  for (const PageFile& file : PageFiles()) {
    const HttpResponse response = Answer(Get(std::string(file.path)));
    EXPECT_EQ(response.status, 200u);
    EXPECT_EQ(response.body, file.content);
    EXPECT_EQ(response.content_type, file.content_type);
    EXPECT_FALSE(file.content_type.empty()) << file.path;
  }
  EXPECT_THAT(Answer(Get("/")).body, HasSubstr("<!doctype html>"));
  EXPECT_EQ(StatusOf(Get("/?from=elsewhere")), 200u);
  HttpRequest head = Get("/");
  head.method = "HEAD";
  EXPECT_EQ(StatusOf(head), 200u);
}

TEST_F(ConsoleTest, TheAuditLogHasWordsForEveryAction) {
  const std::string script = Answer(Get("/audit.js")).body;
  const auto& actions = *v1::AuditAction_descriptor();
  for (int i = 0; i < actions.value_count(); ++i) {
    if (actions.value(i)->number() == v1::AUDIT_ACTION_UNSPECIFIED) continue;
    EXPECT_THAT(script, HasSubstr("  " + std::string(actions.value(i)->name()) + ": \""));
  }
}

TEST_F(ConsoleTest, ServesNothingElse) {
  for (const char* target : {"", "/index.html", "/../console.js", "//", "*", "http://localhost/",
                             "/console.js/", "/page/console.js"}) {
    EXPECT_EQ(StatusOf(Get(target)), 404u) << target;
  }
  HttpRequest post = Get("/");
  post.method = "POST";
  EXPECT_EQ(StatusOf(post), 405u);
}

TEST_F(ConsoleTest, CallsArePosts) {
  EXPECT_EQ(StatusOf(Call()), 200u);
  for (const char* method : {"GET", "HEAD", "PUT", "OPTIONS", "post", ""}) {
    HttpRequest request = Call();
    request.method = method;
    const HttpResponse response = Answer(request);
    EXPECT_EQ(response.status, 405u) << method;
    EXPECT_THAT(response.headers, ElementsAre(Pair("Allow", "POST")));
  }
  HttpRequest other = Call();
  other.target = "/api/Overview?x=y";
  EXPECT_EQ(StatusOf(other), 404u);
  other.target = "/api/";
  EXPECT_EQ(StatusOf(other), 404u);
}

// Neither a form nor a script of another site can send them.
TEST_F(ConsoleTest, CallsHaveTheHeadersOfThePage) {
  HttpRequest request = Call();
  request.console_header = "";
  EXPECT_EQ(StatusOf(request), 403u);
  for (const char* type :
       {"", "text/plain", "application/x-www-form-urlencoded", "application/json, text/plain"}) {
    request = Call();
    request.content_type = type;
    EXPECT_EQ(StatusOf(request), 400u) << type;
  }
}

TEST_F(ConsoleTest, PagesOfOtherOriginsAreRefused) {
  for (const char* origin : {"null", "https://localhost:7412", "http://localhost:3000",
                             "http://localhost", "http://evil.example"}) {
    HttpRequest request = Call();
    request.origin = origin;
    EXPECT_EQ(StatusOf(request), 403u) << origin;
  }
  for (const char* site : {"cross-site", "same-site", "none"}) {
    HttpRequest request = Call();
    request.fetch_site = site;
    EXPECT_EQ(StatusOf(request), 403u) << site;
  }
  // A program, which has neither.
  HttpRequest request = Call();
  request.origin = request.fetch_site = "";
  EXPECT_EQ(StatusOf(request), 200u);
  // Over TLS the origin is another one.
  request = Call();
  request.secure = true;
  EXPECT_EQ(StatusOf(request), 403u);
  request.origin = "https://localhost:7412";
  EXPECT_EQ(StatusOf(request), 200u);
}

// DNS rebinding: the name of an attacker that resolves to this machine.
TEST_F(ConsoleTest, WithoutTlsAndWithoutATokenTheHostIsAnAddress) {
  for (const char* host :
       {"localhost:7412", "LOCALHOST", "127.0.0.1:7412", "[::1]:7412", "[::1]", "10.1.2.3:80"}) {
    HttpRequest request = Call(host);
    request.credentials = {};
    EXPECT_TRUE(Sender(request).ok()) << host;
  }
  for (const char* host : {"evil.example:7412", "127.0.0.1.evil.example", "127.evil.example",
                           "localhost.evil.example", "127.0.0.1]:7412", "[::1].evil.example"}) {
    HttpRequest request = Call(host);
    request.credentials = {};
    // A header of a proxy does not help: scripts can send it.
    request.credentials.local = false;
    EXPECT_EQ(Sender(request).code(), absl::StatusCode::kPermissionDenied) << host;
    // The browser has verified the certificate.
    request.secure = true;
    request.origin = std::string("https://") + host;
    EXPECT_TRUE(Sender(request).ok()) << host;
    // Only the console's own page knows a token.
    EXPECT_TRUE(Sender(Call(host)).ok()) << host;
  }
  HttpRequest request = Call("");
  request.credentials = {};
  EXPECT_EQ(Sender(request).code(), absl::StatusCode::kInvalidArgument);
}

// Any page can send a token that nobody verifies.
TEST_F(ConsoleTest, WithoutCredentialsOfCallersATokenExcusesNoHost) {
  const AccessControl open;
  for (const char* host : {"localhost:7412", "127.0.0.1:7412"}) {
    EXPECT_TRUE(CheckSender(Call(host), open).ok()) << host;
  }
  HttpRequest request = Call("evil.example:7412");
  EXPECT_EQ(CheckSender(request, open).code(), absl::StatusCode::kPermissionDenied);
  request.secure = true;
  request.origin = "https://evil.example:7412";
  EXPECT_TRUE(CheckSender(request, open).ok());
}

TEST_F(ConsoleTest, AnOpenDaemonAnswersNoPageUnderAnotherName) {
  const AccessControl open;
  const Console console(service_.parts(open));
  const auto status_of = [&](const std::string& host) {
    AwaitedResponse response;
    console.Answer(Call(host), response.Sink());
    return response.Await().status;
  };
  EXPECT_EQ(status_of("localhost:7412"), 200u);
  EXPECT_EQ(status_of("evil.example:7412"), 403u);
}

}  // namespace
}  // namespace idempotency::internal
