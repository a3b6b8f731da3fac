# The operator's image: one static program, and the public certificate authorities.
#
#   docker build -t IMG .                            compiles here, for the platform that is built for (--platform linux/amd64,linux/arm64)
#   docker build -t IMG --build-arg BINARY=prebuilt  packs bin/linux/ARCH, which `make docker-build` has compiled
#
# Both end in the same last stage.
ARG BINARY=build

FROM docker.io/library/rust:1.95-alpine AS build
RUN apk add --no-cache ca-certificates musl-dev
WORKDIR /src
COPY . .
ARG REVISION=unknown
ENV DROVER_REVISION=$REVISION
# On Alpine, programs are static by default.
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo rustc --release --locked --package drover --bin drover -- -C link-arg=-Wl,-z,pack-relative-relocs \
    && install -D target/release/drover /image/drover \
    && install -D -m 644 /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ca-certificates.crt

FROM scratch AS prebuilt
ARG TARGETARCH
COPY bin/linux/${TARGETARCH} /image

FROM ${BINARY} AS binary

FROM scratch
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="drover" \
      org.opencontainers.image.description="A Kubernetes operator that runs groups of VMs on VMware vSphere" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=binary /image /
ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
# A number, so that Kubernetes can tell that it is not root.
USER 65532:65532
ENTRYPOINT ["/drover"]
