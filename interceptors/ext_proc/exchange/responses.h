// The messages for Envoy, one function for each kind. Thread-safe.
#ifndef IDEMPOTENCY_INTERCEPTORS_EXT_PROC_EXCHANGE_RESPONSES_H_
#define IDEMPOTENCY_INTERCEPTORS_EXT_PROC_EXCHANGE_RESPONSES_H_

#include <string>
#include <vector>

#include "envoy/service/ext_proc/v3/external_processor.pb.h"

#include "interceptors/ext_proc/exchange/http_message.h"

namespace idempotency::internal {

using ProcessingResponse = envoy::service::ext_proc::v3::ProcessingResponse;

// The parts of a message that Envoy passes on, with changed headers.
ProcessingResponse RequestHeadersResponse(const std::vector<std::string>& remove);
ProcessingResponse RequestTrailersResponse();
ProcessingResponse ReplyHeadersResponse(const std::vector<std::string>& remove,
                                        const std::vector<HeaderList::Header>& add);
ProcessingResponse ReplyTrailersResponse(const std::vector<std::string>& remove,
                                         const std::vector<HeaderList::Header>& add);
ProcessingResponse BodyResponseOf(bool of_reply, std::string body, bool end_of_stream);

// A response in place of the upstream's, in one message: `:status` is required. A name that occurs
// several times stays so.
ProcessingResponse ImmediateResponseOf(const HttpMessage& response);
// The parts of a streamed one. Envoy keeps the last of several headers with one name, so their
// values are joined by commas, as HTTP permits for lists. `set-cookie` is no list: its last one is
// left, so several of them need the response in one message.
ProcessingResponse StreamedHeadersOf(const HttpMessage& response, bool end_of_stream);
ProcessingResponse StreamedBodyOf(std::string body, bool end_of_stream);
ProcessingResponse StreamedTrailersOf(const HeaderList& trailers);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_EXT_PROC_EXCHANGE_RESPONSES_H_
