#!/bin/sh
# `pip install nvidia-cuda-nvcc==13.0.88` installs an nvcc that compiles nothing: its dependencies have no versions, so that pip takes the newest
# nvidia-nvvm, whose PTX of version 9.5 the ptxas of 13.0.88 refuses: "Unsupported .version 9.5; current version is '9.0'". `pip check` finds no
# fault. With nvidia-nvvm and nvidia-cuda-crt of the same release, it compiles. One would expect a pin, as the metapackage cuda-toolkit has it.
# Packages: nvidia-cuda-nvcc 13.0.88, nvidia-nvvm 13.5.37, nvidia-cuda-crt 13.5.37, the newest when this was seen.
# Whoever pins the compiler so that tuned times stay valid has a machine that compiles today and not after the next release.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '__global__ void twice(float *y) { y[threadIdx.x] *= 2; }' >twice.cu
try() { # the version of the dependencies
    python3 -m venv --clear env
    env/bin/python -m pip install -q --disable-pip-version-check 'nvidia-cuda-nvcc==13.0.88' "nvidia-nvvm==$1" "nvidia-cuda-crt==$1" \
        "nvidia-cuda-runtime==$1"
    env/bin/python -m pip check --disable-pip-version-check
    nvcc=$(find "$folder/env" -path '*/bin/nvcc')
    "$nvcc" -arch=sm_90 -cubin twice.cu -o twice.cubin >log.txt 2>&1 && answer=compiled || answer=$(head -n 1 log.txt)
    echo "nvcc 13.0.88 with nvidia-nvvm $1: $answer"
}
try 13.5.37
case $answer in *"Unsupported .version"*) ;; *) echo "the behaviour has changed"; exit 1 ;; esac
env/bin/python - <<'EOF'
from importlib.metadata import requires

needed = requires("nvidia-cuda-nvcc")
print("nvidia-cuda-nvcc 13.0.88 requires", needed)
assert not any("=" in name or "<" in name for name in needed), "the behaviour has changed"
EOF
try 13.0.88
[ "$answer" = compiled ] || { echo "the behaviour has changed"; exit 1; }
