#!/bin/sh
# `#pragma STDC FP_CONTRACT OFF`, which C99 has for forbidding FMA, does nothing in GCC: with -mfma or -march=native, `a * b + c` is fused after it,
# also in a function of its own, and no warning is given without -Wall. -std=c11 and -ffp-contract=off forbid it, -std=gnu11, the default, does not.
# PoCL obeys the same pragma of OpenCL C. One would expect that, or an error: the result is another one.
# Seen with GCC 12.2 on x86-64 with FMA. The manual says that -ffp-contract=on, which would obey the pragma, is not implemented.
# A reference in C that is to round as a kernel with -fmad=false does is fused on new processors and not on old ones.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >fused.c <<'EOF'
#include <stdio.h>

#pragma STDC FP_CONTRACT OFF

__attribute__((noinline)) double sum(double a, double b, double c) { return a * b + c; }

int main(void) {
    double a = 1 + 0x1p-30;
    printf("%a\n", sum(a, a, -(1 + 0x1p-29)));
    return 0;
}
EOF
grep -qw fma /proc/cpuinfo || { echo "this processor has no FMA"; exit 0; }
gcc --version | head -n 1
status=0
check() { # the answer, what GCC writes, then the command
    expected=$1 warning=$2
    shift 2
    "$@" fused.c -o fused 2>log.txt
    answer=$(./fused)
    echo "$*: (1 + 2^-30)^2 - (1 + 2^-29) = $answer $(grep -o 'ignoring.*' log.txt || true)"
    [ "$answer" = "$expected" ] && [ "$(grep -c ignoring log.txt)" = "$warning" ] || { echo "the behaviour has changed"; status=1; }
}
check 0x1p-60 0 gcc -O2 -mfma
check 0x1p-60 0 gcc -O2 -mfma -std=gnu11
check 0x1p-60 1 gcc -O2 -mfma -Wall
check 0x0p+0 0 gcc -O2 -mfma -std=c11
check 0x0p+0 0 gcc -O2 -mfma -ffp-contract=off
check 0x0p+0 0 gcc -O2
exit $status
