#!/bin/sh
# Code that NVRTC compiles with `-dlto` for linking by nvJitLink loses its options: `-fmad=false` is fused again, `-ftz=true` keeps denormals, and
# `-prec-div=false` divides precisely, with twice the instructions. The linker decides anew, by its own options (-fma=0, -ftz=1, -prec-div=0),
# and warns of nothing. Without -dlto, the same options hold. One would expect them in the LTO IR, or an error where they differ.
# Packages: nvidia-cuda-nvrtc and nvidia-nvjitlink 13.0.88, cuda-bindings 13.0.3, nvidia-cuda-nvdisasm 13.5.37 to read the code, without a GPU.
# A kernel that was verified and tuned as one program rounds otherwise, and takes another time, once a library links it with others.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'nvidia-cuda-nvrtc==13.0.88' 'nvidia-nvjitlink==13.0.88' \
    'cuda-bindings==13.0.3' 'nvidia-cuda-nvdisasm==13.5.37'
cat >check.py <<'EOF'
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

import nvidia
from cuda.bindings import nvjitlink, nvrtc

NVDISASM = next(Path(nvidia.__path__[0]).rglob("bin/nvdisasm"))
KERNEL = """extern "C" __global__ void k(float *y, const float *a, const float *b) {
    int i = threadIdx.x;
    y[i] = EXPRESSION;
}"""


def compiled(expression, *options, kind):
    program = nvrtc.nvrtcCreateProgram(KERNEL.replace("EXPRESSION", expression).encode(), b"k.cu", 0, [], [])[1]
    words = [option.encode() for option in ("-arch=sm_90", *options)]
    assert int(nvrtc.nvrtcCompileProgram(program, len(words), words)[0]) == 0, options
    code = bytearray(getattr(nvrtc, f"nvrtcGet{kind}Size")(program)[1])
    getattr(nvrtc, f"nvrtcGet{kind}")(program, code)
    return bytes(code)


def linked(code, *options):
    words = ["-arch=sm_90", "-lto", *options]
    handle = nvjitlink.create(len(words), words)
    nvjitlink.add_data(handle, nvjitlink.InputType.LTOIR, code, len(code), "k")
    nvjitlink.complete(handle)
    warnings = bytearray(nvjitlink.get_info_log_size(handle))
    if warnings:
        nvjitlink.get_info_log(handle, warnings)
    print("    the linker's log:", repr(warnings.decode().strip("\0 \n")))
    cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
    nvjitlink.get_linked_cubin(handle, cubin)
    return bytes(cubin)


def instructions(cubin):
    Path("k.cubin").write_bytes(cubin)
    text = subprocess.run([NVDISASM, "-c", "k.cubin"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\d+ )?([A-Z][A-Z0-9_.]+)", text, re.MULTILINE)


def shown(cubin):
    return [word for word in instructions(cubin) if re.match("FFMA|FMUL|FADD", word)]


print("NVRTC", version("nvidia-cuda-nvrtc"), "nvJitLink", version("nvidia-nvjitlink"))
for option, ours in (("-fmad=false", "-fma=0"), ("-ftz=true", "-ftz=1")):
    expression = "a[i] * b[i] + 1.5f"
    ir = compiled(expression, "-dlto", option, kind="LTOIR")
    alone, joined, told = shown(compiled(expression, option, kind="CUBIN")), shown(linked(ir)), shown(linked(ir, ours))
    print(f"{option}: compiled {alone}, linked {joined}, linked with {ours} {told}")
    assert joined == ["FFMA"] and alone == told != joined, "the behaviour has changed"
option, expression = "-prec-div=false", "a[i] / b[i]"
ir = compiled(expression, "-dlto", option, kind="LTOIR")
counts = [len(instructions(code)) for code in (compiled(expression, option, kind="CUBIN"), linked(ir), linked(ir, "-prec-div=0"))]
print(f"{option}: instructions compiled, linked, linked with -prec-div=0: {counts}")
assert counts[1] > 1.5 * counts[0] and counts[2] == counts[0], "the behaviour has changed"
EOF
env/bin/python check.py
