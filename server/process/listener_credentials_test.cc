#include "server/process/listener_credentials.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <array>
#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "core/mutex.h"
#include "server/process/certificate_change.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

Key NewKey() { return Key(EVP_EC_gen("P-256"), &EVP_PKEY_free); }

template <typename Write>
std::string Pem(Write write) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()), &BIO_free);
  write(bio.get());
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);  // NOLINT(google-runtime-int)
  return std::string(data, static_cast<std::size_t>(size));
}

std::string KeyPem(const Key& key) {
  return Pem([&](BIO* bio) {
    PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
}

std::string LockedKeyPem(const Key& key) {
  return Pem([&](BIO* bio) {
    unsigned char passphrase[] = "passphrase";
    PEM_write_bio_PrivateKey(bio, key.get(), EVP_aes_128_cbc(), passphrase, sizeof(passphrase) - 1,
                             nullptr, nullptr);
  });
}

using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

// Of the authority `issuer`, valid from `since` seconds from now until `until` seconds from now.
Certificate Issue(const Key& key, const char* name, const Key& issuer_key, const char* issuer,
                  int since, int until) {
  Certificate certificate(X509_new(), &X509_free);
  const auto set = [](X509_NAME* to, const char* text) {
    X509_NAME_add_entry_by_txt(to, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(text),
                               -1, -1, 0);
  };
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  set(X509_get_subject_name(certificate.get()), name);
  set(X509_get_issuer_name(certificate.get()), issuer);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), since);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), until);
  X509_set_pubkey(certificate.get(), key.get());
  X509_sign(certificate.get(), issuer_key.get(), EVP_sha256());
  return certificate;
}

// Signed by itself.
std::string CertificatePem(const Key& key, int until, int since = -3600) {
  const Certificate made = Issue(key, "authority", key, "authority", since, until);
  return Pem([&](BIO* bio) { PEM_write_bio_X509(bio, made.get()); });
}

// A client with a certificate, which keeps the last TLS session that it got. Aborts the test if it
// cannot connect.
class ResumingClient {
 public:
  ResumingClient(int port, const Certificate& certificate, const Key& key)
      : port_(port), context_(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free) {
    SSL_CTX_use_certificate(context_.get(), certificate.get());
    SSL_CTX_use_PrivateKey(context_.get(), key.get());
    constexpr unsigned char kHttp2[] = {2, 'h', '2'};
    SSL_CTX_set_alpn_protos(context_.get(), kHttp2, sizeof(kHttp2));
  }

  struct Connection {
    // The client presented the session of before, and no certificate.
    bool resumed = false;
    // The server sent its settings.
    bool accepted = false;
  };
  Connection Connect() {
    const std::unique_ptr<BIO, decltype(&BIO_free_all)> bio(BIO_new_ssl_connect(context_.get()),
                                                            &BIO_free_all);
    BIO_set_conn_hostname(bio.get(), absl::StrCat("127.0.0.1:", port_).c_str());
    SSL* ssl = nullptr;
    BIO_get_ssl(bio.get(), &ssl);
    if (session_ != nullptr) SSL_set_session(ssl, session_.get());
    Connection made;
    char settings[16];
    if (BIO_do_connect(bio.get()) != 1) return made;
    made.resumed = SSL_session_reused(ssl) == 1;
    made.accepted = BIO_read(bio.get(), settings, sizeof(settings)) > 0;
    // Sessions arrive before the settings.
    if (made.accepted) session_.reset(SSL_get1_session(ssl));
    return made;
  }

 private:
  const int port_;
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::unique_ptr<SSL_SESSION, decltype(&SSL_SESSION_free)> session_{nullptr, &SSL_SESSION_free};
};

// What is reported, also by the thread that reads the files again.
class Validities final : public Observer {
 public:
  void CertificateLoaded(CertificateUse use, const CertificateValidity& validity) override {
    const MutexLock lock(mutex_);
    validities_[use] = validity;
    changed_.NotifyAll();
  }

  std::map<CertificateUse, CertificateValidity> Get() {
    const MutexLock lock(mutex_);
    return validities_;
  }
  // False if it takes half a minute.
  bool AwaitEndAfter(CertificateUse use, absl::Time time) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    MutexLock lock(mutex_);
    while (validities_[use].not_after <= time) {
      if (!changed_.WaitUntil(lock, deadline)) return false;
    }
    return true;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::map<CertificateUse, CertificateValidity> validities_ ABSL_GUARDED_BY(mutex_);
};

class ListenerCredentialsTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& content) {
    std::ofstream(folder_.File(name)) << content;
    return folder_.File(name);
  }

  static std::string ErrorOf(const ListenerTlsFiles& files) {
    Observer observer;
    const absl::Status status = ListenerCredentials::Make(files, observer).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  testing::TempFolder folder_;
  Validities validities_;
  const Key key_ = NewKey();
  const std::string good_certificate_ = Write("good.pem", CertificatePem(key_, 3600));
  const std::string good_key_ = Write("good.key", KeyPem(key_));
};

TEST_F(ListenerCredentialsTest, WithoutFilesThereIsNoTls) {
  EXPECT_TRUE(ListenerCredentials::Make({}, validities_).ok());
}

TEST_F(ListenerCredentialsTest, TakesACertificateWithItsKeyAndAnAuthority) {
  EXPECT_TRUE(ListenerCredentials::Make({good_certificate_, good_key_, ""}, validities_).ok());
  EXPECT_TRUE(
      ListenerCredentials::Make({good_certificate_, good_key_, good_certificate_}, validities_)
          .ok());
}

TEST_F(ListenerCredentialsTest, ReportsTheValidityOfTheFirstCertificateToExpire) {
  const absl::Time now = absl::Now();
  const std::string chain =
      Write("chain.pem",
            CertificatePem(key_, 7200) + CertificatePem(key_, 1800) + CertificatePem(key_, 5400));
  ASSERT_TRUE(ListenerCredentials::Make({chain, good_key_, good_certificate_}, validities_).ok());
  std::map<CertificateUse, CertificateValidity> validities = validities_.Get();
  ASSERT_EQ(validities.size(), 2);
  const CertificateValidity& server = validities[CertificateUse::kServer];
  EXPECT_LT(absl::AbsDuration(server.not_after - (now + absl::Minutes(30))), absl::Minutes(1));
  EXPECT_LT(absl::AbsDuration(server.not_before - (now - absl::Hours(1))), absl::Minutes(1));
  const CertificateValidity& authority = validities[CertificateUse::kClientCa];
  EXPECT_LT(absl::AbsDuration(authority.not_after - (now + absl::Hours(1))), absl::Minutes(1));
}

TEST_F(ListenerCredentialsTest, ARenewedCertificateIsReported) {
  const std::string certificate = Write("renewed.pem", CertificatePem(key_, 600));
  const auto made = ListenerCredentials::Make({certificate, good_key_, ""}, validities_);
  ASSERT_TRUE(made.ok());
  Write("renewed.pem", CertificatePem(key_, 7200));
  EXPECT_TRUE(validities_.AwaitEndAfter(CertificateUse::kServer, absl::Now() + absl::Hours(1)));
}

// Of the authority `issuer`, for these names.
std::string NamedPem(const Key& key, const char* issuer, const std::string& names) {
  const Certificate made = Issue(key, "idempotencyd", key, issuer, -3600, 3600);
  if (!names.empty()) {
    const std::unique_ptr<X509_EXTENSION, decltype(&X509_EXTENSION_free)> extension(
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, names.c_str()),
        &X509_EXTENSION_free);
    X509_add_ext(made.get(), extension.get(), -1);
    X509_sign(made.get(), key.get(), EVP_sha256());
  }
  return KeyPem(key) + Pem([&](BIO* bio) { PEM_write_bio_X509(bio, made.get()); });
}

TEST_F(ListenerCredentialsTest, AChangeOfNamesAndOfTheIssuerIsFound) {
  const std::string names = "DNS:a,DNS:b,IP:10.0.0.1,URI:spiffe://example.org/d";
  const std::string former = NamedPem(key_, "one", names);
  const auto lost = [&](const std::string& next) {
    return ChangeOfCertificate(former, NamedPem(key_, "one", next)).names_lost;
  };
  EXPECT_THAT(lost(names + ",DNS:c"), IsEmpty());
  EXPECT_THAT(lost("DNS:c,DNS:b"),
              ElementsAre("DNS:a", "IP Address:10.0.0.1", "URI:spiffe://example.org/d"));
  EXPECT_THAT(lost(""), SizeIs(4));
  EXPECT_EQ(ChangeOfCertificate(former, NamedPem(NewKey(), "one", names)).issuer, "");
  const CertificateChange issued = ChangeOfCertificate(former, NamedPem(key_, "two", names));
  EXPECT_EQ(issued.former_issuer, "CN=one");
  EXPECT_EQ(issued.issuer, "CN=two");
  EXPECT_THAT(issued.names_lost, IsEmpty());
}

TEST_F(ListenerCredentialsTest, MalformedNamesLeaveNoErrorsBehind) {
  const Certificate made = Issue(key_, "idempotencyd", key_, "one", -3600, 3600);
  const std::unique_ptr<ASN1_OCTET_STRING, decltype(&ASN1_OCTET_STRING_free)> octets(
      ASN1_OCTET_STRING_new(), &ASN1_OCTET_STRING_free);
  const std::array<unsigned char, 3> malformed = {0x30, 0x7f, 0x00};
  ASN1_OCTET_STRING_set(octets.get(), malformed.data(), malformed.size());
  const std::unique_ptr<X509_EXTENSION, decltype(&X509_EXTENSION_free)> extension(
      X509_EXTENSION_create_by_NID(nullptr, NID_subject_alt_name, 0, octets.get()),
      &X509_EXTENSION_free);
  X509_add_ext(made.get(), extension.get(), -1);
  X509_sign(made.get(), key_.get(), EVP_sha256());
  const std::string pem = Pem([&](BIO* bio) { PEM_write_bio_X509(bio, made.get()); });
  ERR_clear_error();
  EXPECT_THAT(ChangeOfCertificate(pem, pem).names_lost, IsEmpty());
  EXPECT_EQ(ERR_peek_error(), 0);
}

TEST_F(ListenerCredentialsTest, WithoutTlsNoValidityIsReported) {
  ASSERT_TRUE(ListenerCredentials::Make({}, validities_).ok());
  EXPECT_TRUE(validities_.Get().empty());
}

// As in a rotation whose old authority expired before it was removed.
TEST_F(ListenerCredentialsTest, AnAuthorityThatHasExpiredDoesNotCountBesideOneThatHasNot) {
  const std::string good = CertificatePem(key_, 3600);
  const std::string old = CertificatePem(key_, -60);
  for (const std::string& authorities :
       {absl::StrCat(old, good), absl::StrCat(good, old), absl::StrCat(old, old, good)}) {
    const std::string file = Write("authorities.pem", authorities);
    EXPECT_TRUE(ListenerCredentials::Make({good_certificate_, good_key_, file}, validities_).ok());
  }
  const std::string file = Write("authorities.pem", absl::StrCat(old, old));
  EXPECT_THAT(ErrorOf({good_certificate_, good_key_, file}),
              HasSubstr("contains only certificates that have expired"));
}

// A handshake that resumes a session verifies no certificate, and gRPC's servers resume sessions.
TEST_F(ListenerCredentialsTest, ASessionIsNotResumedAfterTheCertificateOfItsClientHasExpired) {
  const auto made =
      ListenerCredentials::Make({good_certificate_, good_key_, good_certificate_}, validities_);
  ASSERT_TRUE(made.ok()) << made.status();
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", (*made)->credentials(), &port);
  // gRPC polls for it.
  grpc::CallbackGenericService service;
  builder.RegisterCallbackGenericService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();

  constexpr int kLife = 4;
  const Key key = NewKey();
  const Certificate certificate = Issue(key, "client", key_, "authority", -3600, kLife);
  const absl::Time end = absl::Now() + absl::Seconds(kLife);
  ResumingClient client(port, certificate, key);
  EXPECT_TRUE(client.Connect().accepted);
  const ResumingClient::Connection before = client.Connect();
  EXPECT_TRUE(before.accepted && before.resumed);
  // The certificate's own life, by the clock that OpenSSL reads, with a second for its rounding.
  absl::SleepFor(end + absl::Seconds(1) - absl::Now());
  const ResumingClient::Connection after = client.Connect();
  EXPECT_TRUE(after.resumed);
  EXPECT_FALSE(after.accepted);
}

TEST_F(ListenerCredentialsTest, ACertificateThatIsNotValidYetIsRefused) {
  const std::string early = CertificatePem(key_, 7200, 3600);
  EXPECT_THAT(ErrorOf({Write("early.pem", early), good_key_, ""}), HasSubstr("is not valid yet"));
  // The clocks of machines differ.
  EXPECT_TRUE(ListenerCredentials::Make(
                  {Write("new.pem", CertificatePem(key_, 7200, 20)), good_key_, ""}, validities_)
                  .ok());
}

TEST_F(ListenerCredentialsTest, NamesTheFaultyFile) {
  const std::string missing = folder_.File("missing");
  const std::string empty = Write("empty", "");
  const std::string text = Write("text", "no PEM\n");
  const std::string other_key = Write("other.key", KeyPem(NewKey()));
  const std::string locked_key = Write("locked.key", LockedKeyPem(key_));
  const std::string expired = Write("expired.pem", CertificatePem(key_, -60));
  EXPECT_THAT(ErrorOf({missing, good_key_, ""}),
              HasSubstr("--tls_cert=" + missing + ": cannot be read: No such file"));
  EXPECT_THAT(ErrorOf({folder_.path(), good_key_, ""}), HasSubstr("cannot be read"));
  EXPECT_THAT(ErrorOf({empty, good_key_, ""}), HasSubstr("is empty"));
  EXPECT_THAT(ErrorOf({text, good_key_, ""}), HasSubstr("contains no certificate"));
  EXPECT_THAT(ErrorOf({good_key_, good_key_, ""}), HasSubstr("contains no certificate"));
  EXPECT_THAT(ErrorOf({expired, good_key_, ""}), HasSubstr("has expired"));
  EXPECT_THAT(ErrorOf({good_certificate_, missing, ""}), HasSubstr("--tls_key=" + missing));
  EXPECT_THAT(ErrorOf({good_certificate_, text, ""}), HasSubstr("contains no private key"));
  EXPECT_THAT(ErrorOf({good_certificate_, locked_key, ""}), HasSubstr("without a passphrase"));
  EXPECT_THAT(ErrorOf({good_certificate_, other_key, ""}), HasSubstr("is not the key of"));
  EXPECT_THAT(ErrorOf({good_certificate_, good_key_, missing}),
              HasSubstr("--tls_client_ca=" + missing));
  EXPECT_THAT(ErrorOf({good_certificate_, good_key_, text}), HasSubstr("contains no certificate"));
}

}  // namespace
}  // namespace idempotency::internal
