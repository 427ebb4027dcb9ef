#!/bin/sh
# GCC computes _Float16 in C with the digits of float on processors without AVX512-FP16: (2048 + 1) - 2048 is 1 and 300 * 300 / 300 is 300, where
# the sum rounds to 2048 and the square is infinite in float16. An assignment rounds. With -march=native on a processor that has these
# instructions, and in C++ of this version, each operation rounds: 0 and infinity. One file, its options and its compiler give two answers.
# One would expect what CUDA and OpenCL give, or one answer on all processors; -fexcess-precision=16 gives it. The manual has the option.
# Seen with GCC 12.2 on x86-64, -std=c11 and the default. Needs gcc and g++.
# A kernel in C that is verified on one machine overflows on the next, and as a reference it is more precise than the GPU's can be.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >half.c <<'EOF'
#include <stdio.h>

__attribute__((noinline)) _Float16 left(_Float16 a, _Float16 b) { return (a + b) - a; }
__attribute__((noinline)) _Float16 assigned(_Float16 a, _Float16 b) {
    _Float16 sum = a + b;
    return sum - a;
}
__attribute__((noinline)) _Float16 same(_Float16 a) { return a * a / a; }

int main(void) {
    printf("%g %g %g\n", (double)left(2048, 1), (double)assigned(2048, 1), (double)same(300));
    return 0;
}
EOF
cp half.c half.cpp
gcc --version | head -n 1
status=0
check() { # the answer, then the command
    expected=$1
    shift
    "$@" -o half
    answer=$(./half)
    echo "$* : (2048 + 1) - 2048, with an assignment, 300 * 300 / 300: $answer"
    [ "$answer" = "$expected" ] || { echo "the behaviour has changed"; status=1; }
}
check "1 0 300" gcc -O2 -std=c11 half.c
check "1 0 300" gcc -O3 -march=x86-64-v3 half.c
check "0 0 inf" gcc -O2 -std=c11 -fexcess-precision=16 half.c
check "0 0 inf" g++ -O2 half.cpp
if grep -qw avx512_fp16 /proc/cpuinfo; then
    check "0 0 inf" gcc -O2 -std=c11 -march=native half.c
else
    echo "this processor has no AVX512-FP16"
fi
exit $status
