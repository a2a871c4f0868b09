#ifndef IDEMPOTENCY_INTERCEPTORS_CLIENT_TESTING_KEYED_TILL_H_
#define IDEMPOTENCY_INTERCEPTORS_CLIENT_TESTING_KEYED_TILL_H_

#include <grpcpp/security/credentials.h>

#include <memory>

#include "client/testing/till_server.h"
#include "grpc_idempotency/client_interceptor/keyed_channel.h"

namespace idempotency::testdata {

// A channel to `server` whose calls carry keys.
inline std::shared_ptr<grpc::Channel> DialKeyed(const TillServer& server,
                                                const grpc::ChannelArguments& arguments = {}) {
  return CreateKeyedChannel(server.address(), grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace idempotency::testdata

#endif  // IDEMPOTENCY_INTERCEPTORS_CLIENT_TESTING_KEYED_TILL_H_
