# idempotencyd and the payments example on Debian 12.
#   docker build -t grpc-idempotency .
FROM debian:12 AS build
WORKDIR /src
COPY scripts/install-dependencies.sh scripts/
RUN scripts/install-dependencies.sh build
COPY . .
RUN cmake --preset release -DIDEMPOTENCY_BUILD_TESTS=OFF \
 && cmake --build --preset release \
      --target idempotencyctl idempotencyd payments_server payments_client \
 && strip build/release/bin/*

FROM debian:12-slim
# The libraries that the binaries are linked with, and nothing of the compiler.
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
      libgrpc++1.51 libprotobuf32 libabsl20220623 libssl3 libpqxx-6.4 libpq5 libsqlite3-0 \
      libhiredis0.14 libprometheus-cpp-core1.0 libspdlog1.10 libfmt9 \
      ca-certificates openssl \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --home-dir /var/lib/idempotency --create-home idempotency
COPY --from=build /src/build/release/bin/idempotencyd /src/build/release/bin/idempotencyctl /usr/bin/
COPY --from=build /src/build/release/bin/payments_server /src/build/release/bin/payments_client /usr/bin/
USER idempotency
WORKDIR /var/lib/idempotency
VOLUME /var/lib/idempotency
EXPOSE 7411 9464
# Calls the health service of the idempotencyd in this container, at its address, with or without
# TLS. With mutual TLS it presents server.pem, whose extended key usage must include clientAuth, or
# set --tls_cert and --tls_key of a certificate for the check (docs/operations.md). Each connection
# takes a descriptor: run the container with --ulimit nofile=65536:65536 or more.
HEALTHCHECK --interval=5s --timeout=3s --start-period=10s --retries=3 \
  CMD ["idempotencyd", "health"]
ENTRYPOINT ["idempotencyd"]
# Needs these files, because other machines reach it: docs/access.md.
CMD ["serve", "--listen=0.0.0.0:7411", "--metrics=0.0.0.0:9464", "--store=sqlite:/var/lib/idempotency/records.db", "--config=/etc/idempotency/idempotencyd.textproto", "--tls_cert=/etc/idempotency/server.pem", "--tls_key=/etc/idempotency/server.key", "--tls_client_ca=/etc/idempotency/clients.pem"]
