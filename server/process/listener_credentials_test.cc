#include "server/process/listener_credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <fstream>
#include <memory>
#include <string>

#include "tests/support/temp_folder.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;

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

// Signed by itself, valid until `seconds` from now.
std::string CertificatePem(const Key& key, int seconds) {
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), &X509_free);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), seconds);
  X509_set_pubkey(certificate.get(), key.get());
  X509_sign(certificate.get(), key.get(), EVP_sha256());
  return Pem([&](BIO* bio) { PEM_write_bio_X509(bio, certificate.get()); });
}

class ListenerCredentialsTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& content) {
    std::ofstream(folder_.File(name)) << content;
    return folder_.File(name);
  }

  static std::string ErrorOf(const TlsFiles& files) {
    const absl::Status status = ListenerCredentials::Make(files).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  testing::TempFolder folder_;
  const Key key_ = NewKey();
  const std::string good_certificate_ = Write("good.pem", CertificatePem(key_, 3600));
  const std::string good_key_ = Write("good.key", KeyPem(key_));
};

TEST_F(ListenerCredentialsTest, WithoutFilesThereIsNoTls) {
  EXPECT_TRUE(ListenerCredentials::Make({}).ok());
}

TEST_F(ListenerCredentialsTest, TakesACertificateWithItsKeyAndAnAuthority) {
  EXPECT_TRUE(ListenerCredentials::Make({good_certificate_, good_key_, ""}).ok());
  EXPECT_TRUE(ListenerCredentials::Make({good_certificate_, good_key_, good_certificate_}).ok());
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
