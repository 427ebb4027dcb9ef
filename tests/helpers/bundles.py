"""What `tune export --to cubin` writes, compiled, and a driver that tells what it is asked for."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from helpers.processes import Tune, run


def bundle(tune: Tune, folder: Path, *arguments: str) -> dict[str, Any]:
    done = tune("export", *arguments, "--to", "cubin", "--output", folder, "--json")
    assert done.status == 0, done.err
    read: dict[str, Any] = json.loads((folder / "launch.json").read_text())
    return read


def compiled_example(folder: Path) -> Path:
    """The bundle's example, compiled as its first lines say, but with every warning an error."""
    program = folder / "example"
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    run("cc", *flags, "-o", program, folder / "example.c", "-ldl")
    return program


# Memory holds no zeros before it is set. A module is its path, a function its name. Each module has SYMBOL.
_DRIVER = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef unsigned long long address;
struct attribute { int id, padding; unsigned value[16]; };
struct config {
    unsigned grid[3], block[3], shared; void *stream; struct attribute *attributes; unsigned count;
};
static float symbol[1024];
static void kernel(const char *name, const struct config *config, void **p) { KERNEL }
int cuGetErrorName(int e, const char **n) { (void)e; *n = "REFUSED"; return 0; }
int cuInit(unsigned f) { return f; }
int cuDeviceGet(int *d, int n) { *d = n; return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) { *v = a == 75 ? MAJOR : MINOR; return d; }
int cuDeviceGetName(char *n, int l, int d) { snprintf(n, l, "a test's own"); return d; }
int cuDeviceGetPCIBusId(char *n, int l, int d) { snprintf(n, l, "0000:18:00.0"); return d; }
int cuDevicePrimaryCtxRetain(void **c, int d) { *c = c; return d; }
int cuCtxSetCurrent(void *c) { return c == NULL; }
int cuCtxSynchronize(void) { return 0; }
int cuModuleLoad(void **m, const char *p) {
    FILE *file = fopen(p, "rb"); *m = strdup(p); printf("load %s\\n", p); return file == NULL;
}
int cuModuleGetFunction(void **f, void *m, const char *n) {
    *f = strdup(n); printf("get %s of %s\\n", n, strrchr(m, '/') + 1); return 0;
}
int cuModuleGetGlobal_v2(address *a, size_t *n, void *m, const char *s) {
    *a = (address)symbol; *n = sizeof symbol; return m == NULL || strcmp(s, SYMBOL);
}
int cuFuncSetAttribute(void *f, int a, int v) { printf("attribute %d %d\\n", a, v); return f == NULL; }
int cuMemAlloc_v2(address *a, size_t n) { *a = (address)memset(malloc(n), 85, n); return 0; }
int cuMemcpyHtoD_v2(address d, const void *s, size_t n) { memcpy((void *)d, s, n); return 0; }
int cuMemcpyDtoH_v2(void *d, address s, size_t n) { memcpy(d, (void *)s, n); return 0; }
int cuMemcpyDtoDAsync_v2(address d, address s, size_t n, void *stream) {
    memcpy((void *)d, (void *)s, n); printf("copy %zu\\n", n); return stream != NULL;
}
int cuMemsetD8Async(address d, unsigned char v, size_t n, void *stream) {
    memset((void *)d, v, n); printf("set %zu to %d\\n", n, v); return stream != NULL;
}
int cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *array, const address *extents,
                           const address *strides, const unsigned *box, const unsigned *steps, int interleave,
                           int swizzle, int promotion, int fill) {
    printf("map %d %d %d %d %d", type, interleave, swizzle, promotion, fill);
    for (unsigned i = 0; i < rank; i++) {
        printf(", %llu %llu %u %u", extents[i], i ? strides[i - 1] : 0, box[i], steps[i]);
    }
    printf("\\n");
    memcpy(memset(map, 0, 128), &array, sizeof array);
    return (size_t)map % 64 != 0;
}
int cuTexObjectCreate(address *texture, const void *array, const void *reading, const void *view) {
    const int *a = array, *r = reading;
    printf("texture %d %d %d, %d %d %d, %d %d %d\\n", a[0], a[4], a[5], a[6], a[8], a[10], r[0], r[3], r[4]);
    memcpy(texture, a + 2, sizeof *texture);
    return view != NULL;
}
int cuEventCreate(void **e, unsigned f) { *e = e; return f; }
int cuEventRecord(void *e, void *s) { return e == NULL || s != NULL; }
int cuEventElapsedTime(float *t, void *a, void *b) { *t = 10; return a == b; }
int cuLaunchKernelEx(const struct config *c, void *f, void **p, void **extra) {
    printf("launch %s: %u %u %u, %u %u %u, %u", (char *)f, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1],
           c->block[2], c->shared);
    for (unsigned i = 0; i < c->count; i++) {
        const unsigned *v = c->attributes[i].value;
        printf(", attribute %d: %u %u %u", c->attributes[i].id, v[0], v[1], v[2]);
    }
    printf("\\n");
    kernel(f, c, p);
    return c->stream != NULL || extra != NULL;
}
"""


def run_on_stand_in(
    folder: Path, kernel: str, capability: tuple[int, int] = (9, 0), symbol: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run the example of a bundle on a driver that prints what it is asked for, and has a variable `symbol`. `kernel`
    runs for each launch: the body of a C function of the `name` of a kernel and its parameters `p`."""
    code = _DRIVER.replace("KERNEL", f"(void)name; (void)config; (void)p; {kernel}", 1)
    flags = [f"-DMAJOR={capability[0]}", f"-DMINOR={capability[1]}", f'-DSYMBOL="{symbol}"']
    run("cc", *flags, "-shared", "-fPIC", "-x", "c", "-o", folder / "libcuda.so.1", "-", text=code)
    return subprocess.run(
        [compiled_example(folder), str(folder)],
        capture_output=True, text=True, check=False, env={**os.environ, "LD_LIBRARY_PATH": str(folder)},
    )  # fmt: skip
