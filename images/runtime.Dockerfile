# The image of the runtime and the image worker, built by a container engine. `make images` builds the same root file system without one.
#   docker buildx build --platform linux/amd64,linux/arm64 --build-arg VERSION=v0.1.0 --file images/runtime.Dockerfile --tag mediastack/runtime:v0.1.0 .
# The build stage runs on the target platform: the image worker is C, and its libraries are those of this stage.
ARG GO_IMAGE=docker.io/library/golang:1.26.8-bookworm
FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY hack/packages.sh hack/
RUN hack/packages.sh libvips
COPY . .
ENV CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS="-buildvcs=false -trimpath"
ARG VERSION=devel
RUN go build -ldflags "-s -w -X main.version=${VERSION}" -o bin/ ./runtime/cmd/mediastack-runtime
RUN CGO_ENABLED=1 go build -ldflags "-s -w -X main.version=${VERSION}" -o bin/ ./runtime/cmd/mediastack-imaging
RUN go -C hack/images build -o ../../bin/mediastack-images . && bin/mediastack-images root runtime /image

FROM scratch
COPY --from=build /image/ /
ARG VERSION=devel
ARG REVISION=unknown
ENV PATH=/usr/local/bin
LABEL org.opencontainers.image.title="mediastack runtime" \
      org.opencontainers.image.description="Serves REST, TUS, MCP and logins, creates thumbnails and conversions, and purges drafts." \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="https://mediastack.dev" \
      org.opencontainers.image.licenses="Apache-2.0"
WORKDIR /
EXPOSE 8080 8081
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/mediastack-runtime"]
