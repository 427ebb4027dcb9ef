#!/bin/sh
# `cv2.integral` of a white image of 2902 x 2902 bytes ends with a negative sum: it adds in int32 and wraps, and at 4096 x 4096 the last sum is -16777216 in
# place of 4278190080. `cv2.reduce` with CV_32S wraps as well, `integral` with `sdepth=cv2.CV_64F` is right.
# OpenCV saturates what it adds in bytes; one would expect that it saturates here, or an error. No warning is given.
# Packages: opencv-python-headless 5.0.0.93.
# Summed-area tables and reductions are usual kernels: at the sizes at which one measures them, a right one is refused.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'opencv-python-headless==5.0.0.93' 'numpy==2.4.6'
cat >check.py <<'END'
import cv2
import numpy as np

print("OpenCV", cv2.__version__)
for size, expected in ((2901, 2901 * 2901 * 255), (2902, 2902 * 2902 * 255 - 2**32), (4096, -16777216)):
    found = int(cv2.integral(np.full((size, size), 255, np.uint8))[-1, -1])
    print(f"{size} x {size}: {found}, exactly {size * size * 255}")
    assert found == expected, "the behaviour has changed"
white = np.full((4096, 4096), 255, np.uint8)
reduced = int(cv2.reduce(white.reshape(1, -1), 1, cv2.REDUCE_SUM, dtype=cv2.CV_32S)[0, 0])
doubles = cv2.integral(white, sdepth=cv2.CV_64F)[-1, -1]
print("reduce:", reduced, "; integral with CV_64F:", doubles)
assert (reduced, doubles) == (-16777216, 4278190080), "the behaviour has changed"
END
env/bin/python check.py
