#!/bin/sh
# C code that SymPy writes for floor(n / 49) is `floor((1.0/49.0)*n)`: for n = 49 it is 0, and so are 1,243 of the indices below 100,000 too small.
# `n // 49` of a symbol becomes the same. `n / d` of two integer symbols becomes C's integer division, 0 for 1 / 2, and floor(n / d) is
# right for that reason alone. One would expect `n/49`, or a warning: n was declared an integer. lambdify writes the product, too.
# Packages: sympy 1.14.0; GCC.
# Generators of kernels have SymPy write their indices and grids: a tile of 49, 98 or 103 reads elements of its neighbour, 32 and 64 are right.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'sympy==1.14.0'
cat >check.py <<'END'
import subprocess
from pathlib import Path

import sympy

n, d = sympy.symbols("n d", integer=True, nonnegative=True)
code = sympy.ccode(n // 49)
print("sympy", sympy.__version__, "n // 49:", code, "; n / d:", sympy.ccode(n / d), "; floor(n / d):", sympy.ccode(sympy.floor(n / d)))
assert code == sympy.ccode(sympy.floor(n / 49)) == "floor((1.0/49.0)*n)", "the behaviour has changed"
assert sympy.ccode(n / d) == "n/d", "the behaviour has changed"
Path("check.c").write_text(f"""#include <math.h>
#include <stdio.h>
int main(void) {{
    int wrong = 0, first = -1;
    for (int n = 0; n < 100000; n++) {{
        int index = {code};
        if (index != n / 49 && wrong++ == 0) first = n;
    }}
    printf("%d %d", wrong, first);
}}""")
subprocess.run(["gcc", "-O2", "check.c", "-lm", "-o", "check"], check=True)
wrong, first = map(int, subprocess.run(["./check"], capture_output=True, text=True, check=True).stdout.split())
print("of 100,000 indices", wrong, "are wrong, the first is", first)
print("lambdify:", int(sympy.lambdify(n, n // 49, "math")(49)), "for 49 // 49")
assert (wrong, first, int(sympy.lambdify(n, n // 49, "math")(49))) == (1243, 49, 0), "the behaviour has changed"
END
env/bin/python check.py
