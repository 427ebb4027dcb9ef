#!/bin/sh
# `joblib.Memory` returns the answer of an earlier program: after a helper that the cached function calls has been edited, or a constant of its
# module, it returns what it stored before, in every new process. Only the text of the cached function itself is compared.
# One would expect another key, as for an edit of the function itself, or a warning; captured values and called functions are known to Python.
# Package: joblib 1.6.0.
# Expected outputs that take minutes are cached so: who mends the helper of a reference goes on comparing with the old one, and the wrong kernel
# passes, or the right one fails.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'joblib==1.6.0'
cat >template.txt <<'EOF'
import joblib

memory = joblib.Memory("cache", verbose=0)
SCALE = @scale


def helper(x):
    return x * @factor


@memory.cache
def reference(x):
    return helper(x) * SCALE @own


print(reference(10))
EOF
env/bin/python -c 'from importlib.metadata import version; print("joblib", version("joblib"))'
status=0
check() { # scale, factor, what the function itself adds, the expected answer
    sed -e "s/@scale/$1/" -e "s/@factor/$2/" -e "s/@own/$3/" template.txt >reference.py
    answer=$(env/bin/python -B reference.py)
    echo "SCALE = $1, x * $2 in the helper, $3 in the function: $answer"
    [ "$answer" = "$4" ] || { echo "the behaviour has changed"; status=1; }
}
check 1 2 "+ 0" 20
check 1 3 "+ 0" 20
check 5 3 "+ 0" 20
check 5 3 "+ 1" 151
exit $status
