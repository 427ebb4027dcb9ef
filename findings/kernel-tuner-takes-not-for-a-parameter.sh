#!/bin/sh
# A restriction of two terms in which a word of Python stands before one of them is refused: "not x > y" and "abs(x - y) <= y" end with
# "Variables ['not', 'x', 'y'] not in tune_params", though "not x > 4" and "max(x, y) <= 4" are accepted; "(x > 1) == (y > 1)" ends
# with a SyntaxError about a parenthesis that was never closed. One would expect what Python makes of the same text.
# Package: kernel_tuner 1.5.0, util.py and searchspace.py, which find names and comparisons by patterns, not by a parser.
# "Either both or none" and "not more than" are usual restrictions; the message sends their author to look for a parameter `not`.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'kernel_tuner==1.5.0' 'python-constraint2==2.9.0'
cat >check.py <<'EOF'
from importlib.metadata import version

from kernel_tuner.searchspace import Searchspace

PARAMETERS = {"x": [1, 2, 4, 8], "y": [1, 2, 4, 8]}
ACCEPTED = ("not x > 4", "max(x, y) <= 4", "x <= y")
REFUSED = ("not x > y", "abs(x - y) <= y", "int(x / 2) == y", "x <= 2 if y > 1 else x <= 1", "x << 1 <= y")
SPLIT = ("(x > 1) == (y > 1)", "(x > 1) != (y > 1)")


def by_python(text):
    return sum(eval(text, {}, {"x": x, "y": y}) for x in PARAMETERS["x"] for y in PARAMETERS["y"])


def by_kernel_tuner(text):
    try:
        return Searchspace(dict(PARAMETERS), [text], 1024).size
    except (ValueError, SyntaxError) as error:
        return f"{type(error).__name__}: {error}"


print("kernel_tuner", version("kernel_tuner"), "python-constraint2", version("python-constraint2"))
found = {text: by_kernel_tuner(text) for text in (*ACCEPTED, *REFUSED, *SPLIT)}
for text, result in found.items():
    print(f"{text!r}: Python accepts {by_python(text)} of 16 configurations; Kernel Tuner: {result}")
assert all(found[text] == by_python(text) for text in ACCEPTED), "the behaviour has changed"
assert all(isinstance(found[text], str) for text in REFUSED + SPLIT), "the behaviour has changed"
assert "Variables ['not', 'x', 'y'] not in tune_params" in found["not x > y"], "the behaviour has changed"
EOF
env/bin/python check.py
