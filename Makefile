# Two commands for newcomers: `make run` starts the proxy, `make test` runs every check.
#
# What a check needs and does not find is installed when this is Debian and we are root; otherwise the tests that need
# it are listed as not run. Nothing here is needed to build: `cargo build --release` does that alone.

SHELL := /bin/bash
CARGO ?= cargo
# Arguments for `make run`, such as ARGS="--listen 127.0.0.1:8080 --origin http://127.0.0.1:9000"
ARGS ?=

.NOTPARALLEL:
.PHONY: help run build test format clippy unit docs xdp tools clean

help:
	@echo 'make run     build the release binary and start it (ARGS="..." are its arguments)'
	@echo 'make test    every check: format, clippy, all tests, documents current'
	@echo 'make docs    write the generated documents anew'
	@echo 'make xdp     build the XDP program anew (needs clang and llvm-strip)'
	@echo 'make build   build the release binary'

build:
	$(CARGO) build --release --locked

run: build
	./target/release/tidegate $(ARGS)

test: tools format clippy unit

format:
	$(CARGO) fmt --all --check

clippy:
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

unit:
	@CARGO="$(CARGO)" tests/run

docs:
	TIDEGATE_BLESS=1 $(CARGO) test -p proxy --lib current

xdp:
	crates/sys/bpf/build.sh

# Program and the Debian package that has it.
TOOLS := ip:iproute2 strace:strace mkfs.ext4:e2fsprogs losetup:mount curl:curl clang:clang llvm-strip:llvm

tools:
	@missing=; \
	for tool in $(TOOLS); do command -v "$${tool%%:*}" >/dev/null || missing="$$missing $${tool##*:}"; done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing$$missing"; \
		apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $$missing; \
	else \
		echo "missing:$$missing (the tests that need them are listed as not run)"; \
	fi

clean:
	$(CARGO) clean
