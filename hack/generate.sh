#!/usr/bin/env bash
# Regenerates what is generated from the .proto files. Needs protoc; the plugins are pinned here.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/bin
mkdir -p "$bin"
GOBIN=$bin go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
GOBIN=$bin go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
GOBIN=$bin go install github.com/planetscale/vtprotobuf/cmd/protoc-gen-go-vtproto@v0.6.0
PATH=$bin:$PATH
find api -name '*.proto' | sort | while read -r file; do
  protoc -I . --go_out=. --go_opt=paths=source_relative \
    --go-grpc_out=. --go-grpc_opt=paths=source_relative \
    --go-vtproto_out=. --go-vtproto_opt=paths=source_relative,features=marshal+unmarshal+unmarshal_unsafe+size+clone \
    "$file"
done
