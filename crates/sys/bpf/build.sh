#!/bin/sh
# Builds syn_gate.o from syn_gate.c, and writes down by what, and the digests of both, which a test compares
# (src/xdp/tests.rs).
#
#   build.sh            in this directory, for the tree
#   build.sh OBJECT     the object alone, elsewhere
#
# Needs clang and llvm-strip. Atomic operations that return a value want the third version of the instruction set
# (-mcpu=v3), which kernels have since 5.12. Debugging lines are stripped, BTF stays; no path of this machine is kept.
set -eu
cd "$(dirname "$0")"
object=${1:-syn_gate.o}
# This target knows no folder for the machine's own headers.
clang -target bpfel -mcpu=v3 -O2 -g -fdebug-compilation-dir=. -Wall -Werror -I "/usr/include/$(uname -m)-linux-gnu" -c syn_gate.c -o "$object"
llvm-strip -g "$object"
if [ "$object" = syn_gate.o ]; then
	{
		echo "# $(clang --version | head -n 1)"
		sha256sum syn_gate.c syn_gate.o
	} > syn_gate.sha256
fi
