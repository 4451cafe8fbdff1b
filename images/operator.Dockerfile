# The operator's image, built by a container engine. `make images` builds the same root file system without one.
#   docker buildx build --platform linux/amd64,linux/arm64 --build-arg VERSION=v0.1.0 --file images/operator.Dockerfile --tag mediastack/operator:v0.1.0 .
ARG GO_IMAGE=docker.io/library/golang:1.26.8-bookworm
FROM --platform=${BUILDPLATFORM} ${GO_IMAGE} AS build
WORKDIR /src
COPY . .
ENV CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS="-buildvcs=false -trimpath"
ARG TARGETARCH
ARG VERSION=devel
RUN GOARCH=${TARGETARCH} go build -ldflags "-s -w -X main.version=${VERSION}" -o bin/ ./controllers/cmd/mediastack-operator
RUN go -C hack/images build -o ../../bin/mediastack-images . && bin/mediastack-images root operator /image

FROM scratch
COPY --from=build /image/ /
ARG VERSION=devel
ARG REVISION=unknown
ENV PATH=/usr/local/bin
LABEL org.opencontainers.image.title="mediastack operator" \
      org.opencontainers.image.description="Reconciles the MediaAccount, MediaSettings, MediaWebhook and RetainedMediaAccount objects of a cluster." \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="https://mediastack.dev" \
      org.opencontainers.image.licenses="Apache-2.0"
WORKDIR /
EXPOSE 8080 8081
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/mediastack-operator"]
