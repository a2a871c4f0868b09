#ifndef IDEMPOTENCY_TESTS_SUPPORT_CONTEXT_PEERS_H_
#define IDEMPOTENCY_TESTS_SUPPORT_CONTEXT_PEERS_H_

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>

#include <map>
#include <string>

#if __has_include(<grpcpp/test/server_context_test_spouse.h>)
#include <grpcpp/test/client_context_test_peer.h>
#include <grpcpp/test/server_context_test_spouse.h>
#else

// gRPC's contexts name these classes as friends, and its newer packages do not have them.
namespace grpc::testing {

class ServerContextTestSpouse {
 public:
  explicit ServerContextTestSpouse(ServerContext* context) : context_(context) {}

  // The context has it while this object exists.
  void AddClientMetadata(const std::string& key, const std::string& value) {
    sent_.emplace(key, value);
    context_->client_metadata_.map()->clear();
    for (const auto& [name, text] : sent_) {
      context_->client_metadata_.map()->emplace(string_ref(name.data(), name.size()),
                                                string_ref(text.data(), text.size()));
    }
  }

  std::multimap<std::string, std::string> GetInitialMetadata() const {
    return context_->initial_metadata_;
  }
  std::multimap<std::string, std::string> GetTrailingMetadata() const {
    return context_->trailing_metadata_;
  }

 private:
  ServerContext* const context_;
  std::multimap<std::string, std::string> sent_;
};

class ClientContextTestPeer {
 public:
  explicit ClientContextTestPeer(ClientContext* context) : context_(context) {}

  std::multimap<std::string, std::string> GetSendInitialMetadata() const {
    return context_->send_initial_metadata_;
  }

 private:
  ClientContext* const context_;
};

}  // namespace grpc::testing

#endif

#endif  // IDEMPOTENCY_TESTS_SUPPORT_CONTEXT_PEERS_H_
