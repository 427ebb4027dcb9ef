#!/bin/sh
# safetensors.numpy writes the elements of a transposed array in the order of its memory, under the shape of the transpose: of the 3 x 2 array
# x.T, x being 0 to 5 in two rows, it loads 0, 1, 2, 3, 4, 5, where 0, 3, 1, 4, 2, 5 was saved. Of every second column, x[:, ::2], it writes
# the first columns. Both are other numbers of the right shape and type, without an error or a warning; np.save writes both rightly.
# One would expect the array, or an error, as safetensors.torch has it for tensors that are not contiguous.
# Package: safetensors 0.8.0, numpy.py, save and save_file; numpy 2.4.6.
# Weights and expected outputs are saved like that, and a transpose is what a layout of operands (`nt`, `tn`) asks for:
# every kernel is refused, or tuned on other data. Call np.ascontiguousarray first.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'safetensors==0.8.0' 'numpy==2.4.6'
cat >check.py <<'EOF'
import warnings
from importlib.metadata import version

import numpy as np
from safetensors.numpy import load, load_file, save, save_file

warnings.simplefilter("error")
print("safetensors", version("safetensors"), "numpy", version("numpy"))
x = np.arange(24, dtype=np.float32).reshape(4, 6)
ways = {"x": x, "x.T": x.T, "x[:, ::2]": x[:, ::2], "asfortranarray(x)": np.asfortranarray(x), "ascontiguousarray(x.T)": np.ascontiguousarray(x.T)}
right = {}
for name, array in ways.items():
    save_file({"a": array}, "file.safetensors")
    loaded, from_file = load(save({"a": array}))["a"], load_file("file.safetensors")["a"]
    assert np.array_equal(loaded, from_file) and (loaded.shape, loaded.dtype) == (array.shape, array.dtype)
    right[name] = bool(np.array_equal(loaded, array))
    print(f"{name}: first row saved {array[0].tolist()}, loaded {loaded[0].tolist()}")
assert right["x"] and right["ascontiguousarray(x.T)"]
assert not (right["x.T"] or right["x[:, ::2]"] or right["asfortranarray(x)"]), "the behaviour has changed"
small = np.arange(6).reshape(2, 3).T
assert load(save({"a": small}))["a"].ravel().tolist() == [0, 1, 2, 3, 4, 5] and small.ravel().tolist() == [0, 3, 1, 4, 2, 5]
EOF
env/bin/python check.py
