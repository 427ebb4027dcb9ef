#!/bin/sh
# `pip install --target FOLDER` of a second wheel that shares a top folder with an installed one installs nothing of that folder, but
# the wheel's .dist-info. It warns, says "Successfully installed" and ends with status 0. With --upgrade, as the warning says, it
# deletes the first wheel's files.
# One would expect the files of both, as without --target, or a failure. Only one command with both wheels installs both.
# Package: pip 25.3. All CUDA wheels of NVIDIA share the folder nvidia/: after two commands, either mma.h or what it includes is
# missing, while `pip list --path` names both. NVRTC then fails in every configuration that includes the missing header.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'pip==25.3'
env/bin/python -m pip --version
CRT='nvidia-cuda-crt==13.0.88' RUNTIME='nvidia-cuda-runtime==13.0.96'
to() { # FOLDER, then what pip is given
    target=$1
    shift
    env/bin/python -m pip install --disable-pip-version-check --no-deps --target "$target" "$@" >log 2>&1
    grep -E '^(Successfully|WARNING: Target)' log
}
has() { # FOLDER HEADER
    if [ -n "$(find "$1" -name "$2")" ]; then echo yes; else echo no; fi
}
to two "$CRT"
to two "$RUNTIME"
env/bin/python -m pip list --disable-pip-version-check --path two
two="crt/mma.hpp $(has two mma.hpp), cuda_fp16.h $(has two cuda_fp16.h)"
to upgraded "$CRT"
to upgraded --upgrade "$RUNTIME"
upgraded="crt/mma.hpp $(has upgraded mma.hpp), cuda_fp16.h $(has upgraded cuda_fp16.h)"
to one "$CRT" "$RUNTIME"
one="crt/mma.hpp $(has one mma.hpp), cuda_fp16.h $(has one cuda_fp16.h)"
echo "two commands:             $two"
echo "two commands, --upgrade:  $upgraded"
echo "one command:              $one"
[ "$two" = "crt/mma.hpp yes, cuda_fp16.h no" ]
[ "$upgraded" = "crt/mma.hpp no, cuda_fp16.h yes" ]
[ "$one" = "crt/mma.hpp yes, cuda_fp16.h yes" ]
