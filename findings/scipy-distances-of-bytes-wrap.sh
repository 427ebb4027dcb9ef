#!/bin/sh
# `scipy.spatial.distance.euclidean` of uint8 subtracts in uint8: the distance of 0 and 1 is 255, and of 1 and 0 it is 1. So do cityblock,
# chebyshev and minkowski, for every unsigned type and for int8, where 100 and -100 are 56 apart. `cdist` and `sqeuclidean`
# of the same arrays are right. No warning is given, for arrays of two elements or more.
# One would expect what cdist gives, or a distance that is the same in both directions.
# Package: scipy 1.17.1, spatial/distance.py, minkowski: u - v; numpy 2.4.6.
# Descriptors of images (SIFT, ORB), pixels and quantised embeddings are bytes: a reference for a nearest-neighbour kernel that calls one of
# these in a loop finds other neighbours than the kernel.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'scipy==1.17.1' 'numpy==2.4.6'
cat >check.py <<'EOF'
import warnings

import numpy as np
import scipy
from scipy.spatial import distance

warnings.simplefilter("error")
print("scipy", scipy.__version__, "numpy", np.__version__)


def distances(name, u, v):
    """The distance from u to v, from v to u, and by cdist."""
    measure = getattr(distance, name)
    return [float(each) for each in (measure(u, v), measure(v, u), distance.cdist([u], [v], name)[0, 0])]


found = {}
for kind, u, v in ((np.uint8, [0, 0], [1, 0]), (np.uint32, [0, 0], [1, 0]), (np.int8, [100, 0], [-100, 0])):
    for name in ("euclidean", "cityblock", "chebyshev", "minkowski", "sqeuclidean"):
        found[kind.__name__, name] = distances(name, np.array(u, kind), np.array(v, kind))
        there, back, matrix = found[kind.__name__, name]
        print(f"{kind.__name__} {u} and {v}, {name}: {there:g}, back {back:g}, cdist {matrix:g}")
random = np.random.default_rng(0)
queries, points = (random.integers(0, 256, (200, 8), np.uint8) for _ in range(2))
nearest = [int(np.argmin([distance.euclidean(q, p) for p in points])) for q in queries]
right = distance.cdist(queries, points).argmin(1)
print(f"of {len(queries)} random bytes in 8 dimensions, {np.sum(nearest != right)} get another nearest neighbour than by cdist")
assert found["uint8", "euclidean"] == [255, 1, 1] and found["int8", "cityblock"] == [56, 56, 200], "the behaviour has changed"
assert all(each[0] == each[1] == each[2] for (_, name), each in found.items() if name == "sqeuclidean")
EOF
env/bin/python check.py
