# The image holds two static binaries, the store and its operator, and an empty data directory, and runs as a user that is not root.
#
# The only image it needs is Go's. Name a copy of it with --build-arg GO_IMAGE=... where the public one can't be
# reached. Modules come from the proxy that Go uses by default, or from --build-arg GOPROXY=...; if there is a
# vendor directory (`go mod vendor`), the build takes them from there and needs no network at all.
ARG GO_IMAGE=golang:1.26
FROM ${GO_IMAGE} AS build
ARG GOPROXY
ARG GOFLAGS
ARG VERSION=unknown
WORKDIR /src
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=${VERSION}" \
    -o /image/ ./cmd/georegister ./cmd/georegister-operator \
    && mkdir -p /image/data

FROM scratch
COPY --from=build /image/georegister /image/georegister-operator /
COPY --from=build --chown=65532:65532 /image/data /data
USER 65532:65532
VOLUME /data
ENTRYPOINT ["/georegister"]
