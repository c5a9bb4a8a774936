# The image of kaudit: its static binary and nothing else. `.ci/release/image` builds it, for each architecture.
FROM scratch
ARG TARGETARCH
ARG VERSION=""
ARG REVISION=""
LABEL org.opencontainers.image.title="kaudit" \
    org.opencontainers.image.description="Audits every object of a Kubernetes cluster against Rego policies at each change" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="$VERSION" \
    org.opencontainers.image.revision="$REVISION"
# For clusters whose API server has a public certificate; inside a cluster, the cluster's own CA is used.
COPY ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY kaudit-$TARGETARCH /kaudit
COPY LICENSE /LICENSE
# Numeric, so that the kubelet can verify that it is not root.
USER 65532:65532
ENTRYPOINT ["/kaudit"]
CMD ["check"]
