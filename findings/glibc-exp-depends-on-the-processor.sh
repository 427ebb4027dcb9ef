#!/bin/sh
# One program, one glibc, two processors: exp, sin, cos, tan, atan, pow, tanh and log1p of a double have other last bits where the processor has no
# FMA, because glibc chooses among several builds of each function when it is loaded. One value in 1,000 to 10,000 differs, of tan fewer; the
# four functions of float tried are equal. GLIBC_TUNABLES hides FMA and AVX2 from the library here, as a processor without them would.
# One would expect the same bits, since the results are those of one library; the manual states bounds of the error only.
# Seen with glibc 2.36 and GCC 12.2 on x86-64 with FMA.
# Expected outputs that are computed on one machine and compared exactly on another differ, as does what is hashed or stored from them.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >values.c <<'EOF'
#include <math.h>
#include <stdio.h>

#define OF(name, type, expression)                                      \
    for (int i = 1; i <= 200000; i++) {                                  \
        volatile type x = (type)(i * 0.000061803398875);                 \
        printf("%s %a\n", name, (double)(expression));                  \
    }

int main(void) {
    OF("exp", double, exp(x)) OF("sin", double, sin(x)) OF("cos", double, cos(x)) OF("tan", double, tan(x))
    OF("atan", double, atan(x)) OF("pow", double, pow(x, 1.7)) OF("tanh", double, tanh(x)) OF("log1p", double, log1p(x))
    OF("expf", float, expf(x)) OF("sinf", float, sinf(x)) OF("powf", float, powf(x, 1.7f)) OF("tanhf", float, tanhf(x))
    return 0;
}
EOF
grep -qw fma /proc/cpuinfo || { echo "this processor has no FMA"; exit 0; }
ldd --version | head -n 1
gcc -O1 values.c -o values -lm
./values >with.txt
GLIBC_TUNABLES=glibc.cpu.hwcaps=-FMA,-FMA4,-AVX2,-FMA_Usable,-FMA4_Usable,-AVX2_Usable ./values >without.txt
paste -d ' ' with.txt without.txt | awk '{ if ($2 != $4) n[$1]++; all[$1] = 1 }
    END { for (name in all) print name ": " n[name] + 0 " of 200000 differ" }' | sort >differ.txt
cat differ.txt
[ "$(grep -c 'f: 0 of' differ.txt)" = 4 ] || { echo "the behaviour has changed"; exit 1; }
[ "$(grep -c ': 0 of' differ.txt)" = 4 ] || { echo "the behaviour has changed"; exit 1; }
