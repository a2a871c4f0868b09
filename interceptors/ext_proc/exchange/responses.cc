#include "interceptors/ext_proc/exchange/responses.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace idempotency::internal {
namespace {

using envoy::config::core::v3::HeaderMap;
using envoy::config::core::v3::HeaderValue;
using envoy::config::core::v3::HeaderValueOption;
using envoy::service::ext_proc::v3::HeaderMutation;

constexpr char kStatus[] = ":status";

void Remove(const std::vector<std::string>& names, HeaderMutation& mutation) {
  for (const std::string& name : names) mutation.add_remove_headers(name);
}

void Set(const HeaderList::Header& header, HeaderMutation& mutation) {
  HeaderValueOption& option = *mutation.add_set_headers();
  option.mutable_header()->set_key(header.first);
  option.mutable_header()->set_raw_value(header.second);
  option.set_append_action(HeaderValueOption::OVERWRITE_IF_EXISTS_OR_ADD);
}

void Change(const std::vector<std::string>& remove, const std::vector<HeaderList::Header>& add,
            HeaderMutation& mutation) {
  Remove(remove, mutation);
  for (const HeaderList::Header& header : add) Set(header, mutation);
}

void Join(const HeaderList& headers, HeaderMap& map) {
  // Elements of a repeated message field do not move.
  absl::flat_hash_map<absl::string_view, HeaderValue*> joined;
  for (const auto& [key, value] : headers.all()) {
    HeaderValue*& header = joined[key];
    if (header == nullptr) {
      header = map.add_headers();
      header->set_key(key);
      header->set_raw_value(value);
    } else if (key == "set-cookie" || key == kStatus) {
      header->set_raw_value(value);
    } else {
      absl::StrAppend(header->mutable_raw_value(), ",", value);
    }
  }
}

}  // namespace

ProcessingResponse RequestHeadersResponse(const std::vector<std::string>& remove) {
  ProcessingResponse response;
  auto& common = *response.mutable_request_headers()->mutable_response();
  if (!remove.empty()) Remove(remove, *common.mutable_header_mutation());
  return response;
}

ProcessingResponse RequestTrailersResponse() {
  ProcessingResponse response;
  response.mutable_request_trailers();
  return response;
}

ProcessingResponse ReplyHeadersResponse(const std::vector<std::string>& remove,
                                        const std::vector<HeaderList::Header>& add) {
  ProcessingResponse response;
  auto& common = *response.mutable_response_headers()->mutable_response();
  if (!remove.empty() || !add.empty()) Change(remove, add, *common.mutable_header_mutation());
  return response;
}

ProcessingResponse ReplyTrailersResponse(const std::vector<std::string>& remove,
                                         const std::vector<HeaderList::Header>& add) {
  ProcessingResponse response;
  auto& trailers = *response.mutable_response_trailers();
  if (!remove.empty() || !add.empty()) Change(remove, add, *trailers.mutable_header_mutation());
  return response;
}

ProcessingResponse BodyResponseOf(bool of_reply, std::string body, bool end_of_stream) {
  ProcessingResponse response;
  auto& part = of_reply ? *response.mutable_response_body() : *response.mutable_request_body();
  auto& streamed = *part.mutable_response()->mutable_body_mutation()->mutable_streamed_response();
  streamed.set_body(std::move(body));
  streamed.set_end_of_stream(end_of_stream);
  return response;
}

ProcessingResponse ImmediateResponseOf(const HttpMessage& answer) {
  ProcessingResponse response;
  auto& immediate = *response.mutable_immediate_response();
  absl::flat_hash_set<absl::string_view> seen;
  for (const HeaderList::Header& header : answer.headers.all()) {
    if (header.first == kStatus) {
      int code = 0;
      if (absl::SimpleAtoi(header.second, &code)) immediate.mutable_status()->set_code(code);
      continue;
    }
    const bool repeated = !seen.insert(header.first).second;
    Set(header, *immediate.mutable_headers());
    if (repeated) {
      auto& option = *immediate.mutable_headers()->mutable_set_headers()->rbegin();
      option.clear_append_action();
      option.mutable_append()->set_value(true);
    }
  }
  immediate.set_body(answer.body);
  immediate.set_details("idempotency");
  return response;
}

ProcessingResponse StreamedHeadersOf(const HttpMessage& answer, bool end_of_stream) {
  ProcessingResponse response;
  auto& headers = *response.mutable_streamed_immediate_response()->mutable_headers_response();
  Join(answer.headers, *headers.mutable_headers());
  headers.set_end_of_stream(end_of_stream);
  return response;
}

ProcessingResponse StreamedBodyOf(std::string body, bool end_of_stream) {
  ProcessingResponse response;
  auto& part = *response.mutable_streamed_immediate_response()->mutable_body_response();
  part.set_body(std::move(body));
  part.set_end_of_stream(end_of_stream);
  return response;
}

ProcessingResponse StreamedTrailersOf(const HeaderList& trailers) {
  ProcessingResponse response;
  Join(trailers, *response.mutable_streamed_immediate_response()->mutable_trailers_response());
  return response;
}

}  // namespace idempotency::internal
