# syntax=docker/dockerfile:1

# Alpine's target is musl, whose binaries are static by default, so the final image needs no system files.
FROM rust:1.95-alpine AS build
RUN apk add --no-cache ca-certificates gcc musl-dev
WORKDIR /src

# Dependencies are built in a separate layer, with an empty kaudit, and stay cached when src/ changes.
# The members of the workspace have to exist, empty as well.
COPY Cargo.toml Cargo.lock ./
COPY src/rego/Cargo.toml src/rego/Cargo.toml
COPY tests/controlplane/Cargo.toml tests/controlplane/Cargo.toml
COPY tests/simulation/Cargo.toml tests/simulation/Cargo.toml
COPY tests/support/Cargo.toml tests/support/Cargo.toml
RUN mkdir src/rego/src tests/controlplane/src tests/simulation/src tests/support/src \
    && touch src/lib.rs src/rego/src/lib.rs \
    && touch tests/controlplane/src/lib.rs tests/simulation/src/lib.rs tests/support/src/lib.rs \
    && echo 'fn main() {}' > src/main.rs \
    && cargo build --profile dist --locked --bin kaudit \
    && rm -r src

COPY src src
# The library that is inside the binary.
COPY policies policies
# Copied files may be older than the empty ones that were just compiled.
RUN touch src/lib.rs src/main.rs src/rego/src/lib.rs \
    && cargo build --profile dist --locked --bin kaudit \
    && ./target/dist/kaudit --version

FROM scratch
ARG VERSION=0.1.0
ARG REVISION=""
LABEL org.opencontainers.image.title="kaudit" \
    org.opencontainers.image.description="Audits every object of a Kubernetes cluster against Rego policies at each change" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="$VERSION" \
    org.opencontainers.image.revision="$REVISION"
# For clusters whose API server has a public certificate; inside a cluster, the cluster's own CA is used.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /src/target/dist/kaudit /kaudit
COPY LICENSE /LICENSE
# Numeric, so that the kubelet can verify that it is not root.
USER 65532:65532
ENTRYPOINT ["/kaudit"]
CMD ["check"]
