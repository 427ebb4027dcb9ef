#!/bin/sh
# The largest difference of two arrays is 0 in OpenCV if one of them is NaN everywhere: `cv2.norm(a, b, cv2.NORM_INF)` passes over every NaN, while
# NORM_L1 and NORM_L2 give NaN. `cv2.minMaxLoc(cv2.absdiff(a, b))` is (0, 0) for one NaN in the middle, and (NaN, NaN) for one at the beginning.
# One would expect NaN, as NumPy's max gives it. No warning is given.
# Packages: opencv-python-headless 5.0.0.93.
# `cv2.norm(result, reference, cv2.NORM_INF) < 1e-5` is the usual check of an image kernel: one that writes NaN passes it.
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
for dtype in (np.float32, np.float64):
    reference = np.ones((8, 8), dtype)
    everywhere, middle, first = np.full_like(reference, np.nan), reference.copy(), reference.copy()
    middle[4, 4] = first[0, 0] = np.nan
    largest = [cv2.norm(result, reference, cv2.NORM_INF) for result in (everywhere, middle, first)]
    limits = [cv2.minMaxLoc(cv2.absdiff(result, reference))[:2] for result in (middle, first)]
    print(dtype.__name__, "NORM_INF:", largest, "NORM_L2:", cv2.norm(middle, reference, cv2.NORM_L2), "minMaxLoc:", limits)
    assert largest == [0, 0, 0] and limits[0] == (0, 0), "the behaviour has changed"
    assert np.isnan(cv2.norm(middle, reference, cv2.NORM_L2)) and np.isnan(limits[1]).all(), "the behaviour has changed"
END
env/bin/python check.py
