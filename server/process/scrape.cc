#include "server/process/scrape.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

#include "server/limits.h"

namespace idempotency::internal {
namespace {

bool MayGoOn() { return errno == EAGAIN || errno == EINTR; }

std::string Response(absl::string_view status, absl::string_view headers, absl::string_view body,
                     bool with_body) {
  return absl::StrCat("HTTP/1.1 ", status, "\r\n", headers, "Content-Length: ", body.size(),
                      "\r\nConnection: close\r\n\r\n", with_body ? body : "");
}

std::string Answer(absl::string_view request, const Scrape::Page& page) {
  const absl::string_view line = request.substr(0, request.find("\r\n"));
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  if (words.size() != 3 || !absl::StartsWith(words[2], "HTTP/1.")) {
    return Response("400 Bad Request", "", "", false);
  }
  const bool get = words[0] == "GET";
  if (!get && words[0] != "HEAD") {
    return Response("405 Method Not Allowed", "Allow: GET, HEAD\r\n", "", false);
  }
  const absl::string_view path = words[1].substr(0, words[1].find('?'));
  if (path != "/metrics") {
    return Response("404 Not Found", "", "the metrics are at /metrics\n", get);
  }
  return Response("200 OK", "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n", page(),
                  get);
}

}  // namespace

Scrape::Scrape(FileDescriptor socket, Time deadline)
    : socket_(std::move(socket)), deadline_(deadline) {}

Scrape::~Scrape() {
  if (sent_ == answer_.size()) return;
  const linger at_once{1, 0};
  setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

short Scrape::events() const { return answer_.empty() ? POLLIN : POLLOUT; }

bool Scrape::Advance(const Page& page) {
  if (answer_.empty() && !Receive(page)) return false;
  return answer_.empty() || Send();
}

bool Scrape::Receive(const Page& page) {
  std::array<char, 2048> buffer;
  while (true) {
    const ssize_t got = recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (got <= 0) return got < 0 && MayGoOn();
    request_.append(buffer.data(), static_cast<std::size_t>(got));
    if (absl::StrContains(request_, "\r\n\r\n")) {
      answer_ = Answer(request_, page);
      return true;
    }
    if (request_.size() > limits::kMaxScrapeRequestBytes) return false;
  }
}

bool Scrape::Send() {
  while (sent_ < answer_.size()) {
    const ssize_t sent =
        send(socket_.get(), answer_.data() + sent_, answer_.size() - sent_, MSG_NOSIGNAL);
    if (sent < 0) return MayGoOn();
    sent_ += static_cast<std::size_t>(sent);
  }
  return false;
}

}  // namespace idempotency::internal
