#!/bin/sh
# A comment that is added above a kernel makes Triton compile all of its configurations again: the number of the kernel's first line is
# part of the key of its cache, though its text, the file's name and everything that it calls are the same.
# One would expect a key of the code. Package: triton 3.6.0, runtime/jit.py, JITFunction.cache_key (line numbers are part of the binary
# as debug information), compiling for compute capability 9.0 without a GPU.
# A kernel with 100 configurations of 1 to 6 s each is compiled anew after an edit elsewhere in its file.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'triton==3.6.0'
cat >check.py <<'EOF'
import importlib.util
import pathlib
from importlib.metadata import version

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

TEXT = """
@triton.jit
def copy(x, y):
    i = tl.arange(0, 32)
    tl.store(y + i, tl.load(x + i))
"""


def key(folder, comment):
    path = pathlib.Path(folder) / "kernel.py"
    path.parent.mkdir()
    path.write_text(f"import triton\nimport triton.language as tl\n{comment}{TEXT}")
    spec = importlib.util.spec_from_file_location(folder, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    source = ASTSource(module.copy, {"x": "*fp32", "y": "*fp32"}, {})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32)).hash


print("triton", version("triton"))
found = {name: key(name, comment) for name, comment in {"first": "", "same": "", "moved": "# a comment\n"}.items()}
for name, value in found.items():
    print(f"{name}: key of the cache {value[:16]}")
entries = [path for path in pathlib.Path("cache").iterdir() if (path / "copy.cubin").exists()]
print(f"compiled {len(entries)} times")
assert found["first"] == found["same"] != found["moved"] and len(entries) == 2, "the behaviour has changed"
EOF
TRITON_CACHE_DIR=$folder/cache env/bin/python check.py
