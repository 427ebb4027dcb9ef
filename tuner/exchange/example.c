/* Launches PREFIX through the CUDA driver API: loads the build for the first GPU, fills every array with ones, launches
 * the kernel, and prints the time per launch and the first and last element of each output.
 *
 *     cc -std=c11 -o example example.c -ldl && ./example [folder of the bundle]
 *
 * It needs launch.h, the cubins and a driver. It needs no toolkit: it declares the functions that it calls, and looks
 * them up in libcuda.so.1. A program that is built with the toolkit includes <cuda.h> and links -lcuda instead.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch.h"

#define REPEATS 10
#define ARGUMENTS (sizeof PREFIX_arguments / sizeof *PREFIX_arguments)
#define BUILDS (sizeof PREFIX_builds / sizeof *PREFIX_builds)

typedef unsigned long long address;

enum { COMPUTE_CAPABILITY_MAJOR = 75, COMPUTE_CAPABILITY_MINOR = 76, MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 };

static struct {
    int (*GetErrorName)(int, const char **);
    int (*Init)(unsigned);
    int (*DeviceGet)(int *, int);
    int (*DeviceGetAttribute)(int *, int, int);
    int (*DeviceGetName)(char *, int, int);
    int (*DevicePrimaryCtxRetain)(void **, int);
    int (*CtxSetCurrent)(void *);
    int (*CtxSynchronize)(void);
    int (*ModuleLoad)(void **, const char *);
    int (*ModuleGetFunction)(void **, void *, const char *);
    int (*FuncSetAttribute)(void *, int, int);
    int (*MemAlloc_v2)(address *, size_t);
    int (*MemcpyHtoD_v2)(address, const void *, size_t);
    int (*MemcpyDtoH_v2)(void *, address, size_t);
    int (*LaunchKernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                        void **);
    int (*EventCreate)(void **, unsigned);
    int (*EventRecord)(void *, void *);
    int (*EventElapsedTime)(float *, void *, void *);
} cu;

static void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static void find(void *library, const char *name, void *function) {
    void *symbol = dlsym(library, name);
    if (symbol == NULL) {
        fail(name, "the driver does not have it");
    }
    memcpy(function, &symbol, sizeof symbol);
}

#define FIND(name) find(library, "cu" #name, &cu.name)

static void load_driver(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL) {
        fail("no NVIDIA driver", dlerror());
    }
    FIND(GetErrorName);
    FIND(Init);
    FIND(DeviceGet);
    FIND(DeviceGetAttribute);
    FIND(DeviceGetName);
    FIND(DevicePrimaryCtxRetain);
    FIND(CtxSetCurrent);
    FIND(CtxSynchronize);
    FIND(ModuleLoad);
    FIND(ModuleGetFunction);
    FIND(FuncSetAttribute);
    FIND(MemAlloc_v2);
    FIND(MemcpyHtoD_v2);
    FIND(MemcpyDtoH_v2);
    FIND(LaunchKernel);
    FIND(EventCreate);
    FIND(EventRecord);
    FIND(EventElapsedTime);
}

static void check(int status, const char *what) {
    const char *name = "an unknown error";
    if (status != 0) {
        cu.GetErrorName(status, &name);
        fail(what, name);
    }
}

#define CHECK(call) check(cu.call, #call)

/* The build of the highest minor compute capability that runs on this device; NULL if there is none. */
static const struct tuned_build *choose(int major, int minor) {
    const struct tuned_build *best = NULL;
    for (size_t i = 0; i < BUILDS; i++) {
        const struct tuned_build *build = &PREFIX_builds[i];
        int runs = build->major == major && (build->exact ? build->minor == minor : build->minor <= minor);
        if (runs && (best == NULL || build->minor > best->minor || (build->minor == best->minor && build->exact))) {
            best = build;
        }
    }
    return best;
}

/* A device array for the argument: its contents, else ones. */
static address upload(const struct tuned_argument *argument) {
    unsigned char *host = malloc(argument->bytes);
    address device;
    if (host == NULL) {
        fail(argument->name, "the host has too little memory");
    }
    for (size_t at = 0; at < argument->bytes; at += argument->element) {
        memcpy(host + at, argument->contents ? argument->contents + at : argument->value, argument->element);
    }
    CHECK(MemAlloc_v2(&device, argument->bytes));
    CHECK(MemcpyHtoD_v2(device, host, argument->bytes));
    free(host);
    return device;
}

static void print_element(const struct tuned_argument *argument, address array, size_t at) {
    union {
        unsigned char bytes[16];
        float f;
        double d;
        int i;
    } value;
    CHECK(MemcpyDtoH_v2(value.bytes, array + at, argument->element));
    if (argument->type == 'f') {
        printf(" %g", value.f);
    } else if (argument->type == 'd') {
        printf(" %g", value.d);
    } else if (argument->type == 'i') {
        printf(" %d", value.i);
    } else {
        for (size_t i = 0; i < argument->element; i++) {
            printf("%s%02x", i ? "" : " 0x", value.bytes[argument->element - 1 - i]);
        }
    }
}

int main(int argc, char **argv) {
    int device, major, minor;
    char name[256], path[4096];
    void *context, *module, *function, *start, *stop;
    address arrays[ARGUMENTS];
    void *parameters[ARGUMENTS];
    float milliseconds;

    load_driver();
    CHECK(Init(0));
    CHECK(DeviceGet(&device, 0));
    CHECK(DeviceGetName(name, sizeof name, device));
    CHECK(DeviceGetAttribute(&major, COMPUTE_CAPABILITY_MAJOR, device));
    CHECK(DeviceGetAttribute(&minor, COMPUTE_CAPABILITY_MINOR, device));
    const struct tuned_build *build = choose(major, minor);
    if (build == NULL) {
        fail(name, "the bundle has no build for its compute capability; export with --architecture");
    }
    CHECK(DevicePrimaryCtxRetain(&context, device));
    CHECK(CtxSetCurrent(context));

    snprintf(path, sizeof path, "%s/%s", argc > 1 ? argv[1] : ".", build->file);
    CHECK(ModuleLoad(&module, path));
    CHECK(ModuleGetFunction(&function, module, build->kernel));
    if (build->shared_memory > 48 * 1024) {
        CHECK(FuncSetAttribute(function, MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)build->shared_memory));
    }

    for (size_t i = 0; i < ARGUMENTS; i++) {
        const struct tuned_argument *argument = &PREFIX_arguments[i];
        if (argument->bytes) {
            arrays[i] = upload(argument);
            parameters[i] = &arrays[i];
        } else {
            parameters[i] = (void *)argument->value;
        }
    }

    CHECK(EventCreate(&start, 0));
    CHECK(EventCreate(&stop, 0));
    for (int run = 0; run <= REPEATS; run++) { /* the first run is a warm-up */
        if (run == 1) {
            CHECK(EventRecord(start, NULL));
        }
        CHECK(LaunchKernel(function, build->grid[0], build->grid[1], build->grid[2], build->block[0], build->block[1],
                           build->block[2], build->shared_memory, NULL, parameters, NULL));
    }
    CHECK(EventRecord(stop, NULL));
    CHECK(CtxSynchronize());
    CHECK(EventElapsedTime(&milliseconds, start, stop));

    printf("%s on %s, %s: %g ms per launch\n", build->kernel, name, build->file, milliseconds / REPEATS);
    for (size_t i = 0; i < ARGUMENTS; i++) {
        const struct tuned_argument *argument = &PREFIX_arguments[i];
        if (argument->output) {
            printf("%s:", argument->name);
            print_element(argument, arrays[i], 0);
            print_element(argument, arrays[i], argument->bytes - argument->element);
            printf("\n");
        }
    }
    return 0;
}
