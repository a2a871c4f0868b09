#include "tests/support/metrics_page.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <iostream>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace idempotency::internal::testing {
namespace {

// The whole answer to a GET, "" if there was none.
std::string Get(const std::string& host, int port) {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  std::string answer;
  const std::string question = "GET /metrics HTTP/1.0\r\n\r\n";
  if (connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      send(descriptor, question.data(), question.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(question.size())) {
    std::array<char, 16 * 1024> buffer;
    ssize_t got = 0;
    while ((got = recv(descriptor, buffer.data(), buffer.size(), 0)) > 0) {
      answer.append(buffer.data(), static_cast<std::size_t>(got));
    }
  }
  close(descriptor);
  return answer;
}

}  // namespace

MetricsPage MetricsPage::Fetch(const std::string& address) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(address, ':');
  int port = 0;
  const bool has_port = absl::SimpleAtoi(parts.second, &port);
  const std::string answer = has_port ? Get(parts.first, port) : "";
  const std::size_t body = answer.find("\r\n\r\n");
  if (!absl::StartsWith(answer, "HTTP/1.") || !absl::StrContains(answer, " 200 OK\r\n") ||
      body == std::string::npos) {
    std::cerr << "no metrics at " << address << ": " << answer << "\n";
    std::abort();
  }
  MetricsPage page;
  page.text_ = answer.substr(body + 4);
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(page.text_, '\n'))) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words.size() == 4 && words[0] == "#" && words[1] == "TYPE") {
      page.types_[words[2]] = words[3];
    } else if (double value = 0; words.size() == 2 && absl::SimpleAtod(words[1], &value)) {
      page.samples_[words[0]] = value;
    }
  }
  return page;
}

double MetricsPage::Value(const std::string& series) const {
  const auto found = samples_.find(series);
  return found == samples_.end() ? 0 : found->second;
}

}  // namespace idempotency::internal::testing
