#!/bin/sh
# Makes an authority and certificates for docker-compose.yml, once, in the given
# folder: of the daemons, and of two services and an operator. For trying the service out: in
# production a certificate manager does this.
set -eu
cd "$1"
[ ! -e complete ] || exit 0
umask 077

# issue NAME SUBJECT_ALTERNATIVE_NAMES
issue() {
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" -out "$1.csr" \
    -subj "/CN=$1" 2>/dev/null
  printf 'subjectAltName = %s\n' "$2" >"$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 365 \
    -extfile "$1.ext" -out "$1.pem" 2>/dev/null
  rm "$1.csr" "$1.ext"
}

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem \
  -days 365 -subj "/CN=docker compose" 2>/dev/null
issue server DNS:idempotencyd,DNS:localhost,IP:127.0.0.1
issue payments URI:spiffe://example.org/payments
issue orders URI:spiffe://example.org/orders
issue operator URI:spiffe://example.org/operator
# The authority signs nothing more.
rm ca.key ca.srl
# The image's user.
[ "$(id -u)" != 0 ] || chown 10001 ./*
: >complete
