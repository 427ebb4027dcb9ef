#!/bin/sh
# `torch.cdist(x, x)` of float32 says that a point is 0.06 away from itself as soon as there are 26 points: with 25 all distances are right to 1e-7.
# Above 25, the default compute_mode computes them from a matrix product, in which the squares of coordinates near 100 cancel each other.
# `compute_mode="donot_use_mm_for_euclid_dist"` is right. One would expect that the number of points does not change a distance. No warning is given.
# Packages: torch 2.13.0, on a processor.
# Kernels of neighbours, forces and clusters have this function as a reference: it refuses those that subtract first, which are right.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'torch==2.13.0' 'numpy==2.4.6'
cat >check.py <<'END'
import torch

print("torch", torch.__version__)
points = 100 + torch.rand(26, 3, generator=torch.Generator().manual_seed(1))


def errors(x, **options):
    exact = torch.cdist(x.double(), x.double(), compute_mode="donot_use_mm_for_euclid_dist")
    found = torch.cdist(x, x, **options)
    return found.diagonal().max().item(), (found - exact).abs().max().item()


few, many = errors(points[:25]), errors(points)
without = errors(points, compute_mode="donot_use_mm_for_euclid_dist")
for name, (itself, largest) in (("25 points", few), ("26 points", many), ("26 points, without a matrix product", without)):
    print(f"{name}: largest distance from itself {itself:.2g}, largest error {largest:.2g}")
assert few[0] == without[0] == 0 and max(few[1], without[1]) < 1e-6, "the behaviour has changed"
assert many[0] > 0.01 and many[1] > 0.01, "the behaviour has changed"
END
env/bin/python check.py
